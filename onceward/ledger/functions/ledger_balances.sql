-- Show every account with its posted and pending amounts: the checkpoint plus the later entries.
create or replace view onceward.ledger_balances with (security_invoker = true) as
select a.id as account_id, a.organization_id, a.code, a.currency, a.kind, a.name, a.bounded,
       s.debits, s.credits, coalesce(p.debits, 0) as pending_debits, coalesce(p.credits, 0) as pending_credits,
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
left join (  -- once for all accounts of an organization, whose pending entries would otherwise be read for each
    select o.organization_id, x.account_id, sum(x.debits) as debits, sum(x.credits) as credits
    from onceward.ledger_pending o
    join onceward.ledger_entries e on e.journal_id = o.journal_id
    cross join lateral (values (e.debit_id, e.amount, 0), (e.credit_id, 0, e.amount)) x (account_id, debits, credits)
    group by o.organization_id, x.account_id
) p on p.organization_id = a.organization_id and p.account_id = a.id;

comment on view onceward.ledger_balances is
    'Show every account with its posted and pending amounts: the checkpoint plus the later entries.';
grant select on onceward.ledger_balances to onceward_app, onceward_engine;
