-- Return the sums of all checkpoints and the entry up to which they go, or no row if there are more than $1 accounts.
select (select through from onceward.ledger_horizon) as through,
       coalesce((select jsonb_agg(jsonb_build_array(account_id, debits::text, credits::text)) from onceward.ledger_checkpoints),
                '[]') as sums
 where (select count(*) from onceward.ledger_checkpoints) <= $1
