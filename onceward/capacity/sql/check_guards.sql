-- Find triggers of the claims that are missing or disabled.
select format('capacity_claims: trigger %s is missing or disabled', t.guard)
from (values ('counted_in'), ('counted_over'), ('never_deleted')) as t (guard)
where not exists (
    select from pg_trigger g
    where g.tgrelid = 'onceward.capacity_claims'::regclass and g.tgname = t.guard and g.tgenabled in ('O', 'A'))
limit $1
