-- Find pools whose counts differ from the sum of their claims.
select format('pool %s (%s): the pool counts %s held and %s sold, its claims sum to %s and %s',
              p.id, p.key, p.held, p.sold, coalesce(c.held, 0), coalesce(c.sold, 0))
from onceward.capacity_pools p
left join (
    select pool_id, sum(quantity) filter (where state = 'held') as held,
           sum(quantity) filter (where state = 'sold') as sold
    from onceward.capacity_claims where state in ('held', 'sold') group by pool_id
) c on c.pool_id = p.id
where p.held <> coalesce(c.held, 0) or p.sold <> coalesce(c.sold, 0)
limit $1
