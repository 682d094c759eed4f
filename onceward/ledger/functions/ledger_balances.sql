-- Show every account with its posted and pending amounts: the checkpoint plus the later entries.
create or replace view onceward.ledger_balances with (security_invoker = true) as
select a.id as account_id, a.organization_id, a.code, a.currency, a.kind, a.name, a.bounded,
       s.debits, s.credits, p.debits as pending_debits, p.credits as pending_credits,
       case when a.debit_normal then s.debits - s.credits else s.credits - s.debits end as balance
from onceward.ledger_accounts a
cross join onceward.ledger_horizon h
left join onceward.ledger_checkpoints c on c.account_id = a.id
cross join lateral (
    select coalesce(c.debits, 0) + coalesce((
               select sum(e.amount) from onceward.ledger_entries e
               where e.debit_id = a.id and e.id > h.through and not e.pending), 0) as debits,
           coalesce(c.credits, 0) + coalesce((
               select sum(e.amount) from onceward.ledger_entries e
               where e.credit_id = a.id and e.id > h.through and not e.pending), 0) as credits
) s
cross join lateral (
    select coalesce(sum(e.amount) filter (where e.debit_id = a.id), 0) as debits,
           coalesce(sum(e.amount) filter (where e.credit_id = a.id), 0) as credits
    from onceward.ledger_pending o
    join onceward.ledger_entries e on e.journal_id = o.journal_id
    where o.organization_id = a.organization_id and a.id in (e.debit_id, e.credit_id)
) p;

comment on view onceward.ledger_balances is
    'Show every account with its posted and pending amounts: the checkpoint plus the later entries.';
grant select on onceward.ledger_balances to onceward_app, onceward_engine;
