-- Find units that are held or sold more than once.
select format('pool %s: unit %s has %s live claims', pool_id, unit, count(*))
from onceward.capacity_claims
where unit is not null and state in ('held', 'sold')
group by pool_id, unit
having count(*) > 1
limit $1
