-- Find entries whose reversals and settlements differ from the recorded sum, or exceed the entry.
with drawn as (
    select origin, sum(amount) as amount from onceward.ledger_entries where origin is not null group by origin
)
select format('entry %s of %s: reversals and settlements sum to %s, but %s is recorded',
              coalesce(r.entry_id, d.origin), r.amount, coalesce(d.amount, 0), r.drawn)
from onceward.ledger_drawn r
full join drawn d on d.origin = r.entry_id
where r.drawn is distinct from d.amount or r.drawn > r.amount
limit $1
