-- Return a pool. Claims past their time do not count as held.
select p.id, p.key, p.capacity, p.sold, p.named,
       p.held - coalesce((select sum(quantity) from onceward.capacity_claims c
                          where c.pool_id = p.id and c.state = 'held' and c.expires_at <= onceward.clock()), 0) as held
from onceward.capacity_pools p
where p.organization_id = $1 and p.key = $2
