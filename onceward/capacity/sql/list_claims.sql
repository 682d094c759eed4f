-- List the claims of a holder. A held claim past its time shows as expired.
select c.id, p.key as pool, c.unit, c.quantity, c.holder, c.expires_at,
       case when c.state = 'held' and c.expires_at <= onceward.clock() then 'expired' else c.state end as state
from onceward.capacity_claims c
join onceward.capacity_pools p on p.id = c.pool_id
where c.organization_id = $1 and c.holder = $2
order by c.id
