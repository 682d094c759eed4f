-- Find pools with more held and sold than their capacity.
select format('pool %s (%s): %s held or sold, capacity %s', p.id, p.key, sum(c.quantity), p.capacity)
from onceward.capacity_pools p
join onceward.capacity_claims c on c.pool_id = p.id and c.state in ('held', 'sold')
where p.capacity is not null
group by p.id, p.key, p.capacity, p.kept
having sum(c.quantity) > greatest(p.capacity, p.kept)
limit $1
