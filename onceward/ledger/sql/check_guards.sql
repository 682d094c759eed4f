-- Find triggers of the ledger that are missing or disabled.
select format('%s: trigger %s is missing or disabled', t.name, t.guard)
from (values ('ledger_journals', 'append_only'), ('ledger_entries', 'append_only'), ('ledger_entries', 'drawn_on'),
             ('ledger_accounts', 'append_only'), ('ledger_accounts', 'never_deleted')) as t (name, guard)
where not exists (
    select from pg_trigger g
    where g.tgrelid = to_regclass('onceward.' || t.name) and g.tgname = t.guard and g.tgenabled in ('O', 'A'))
limit $1
