-- Find groups whose totals differ from the sum of their pools.
select format('group %s (%s): the totals are %s places, %s held, %s sold; its pools sum to %s, %s and %s',
              g.id, g.key, t.capacity, t.held, t.sold, p.capacity, p.held, p.sold)
from onceward.capacity_groups g
cross join lateral (
    select coalesce(sum(capacity), 0) as capacity, coalesce(sum(held), 0) as held, coalesce(sum(sold), 0) as sold
    from onceward.capacity_totals where group_id = g.id
) t
left join (
    select group_id, coalesce(sum(capacity), 0) as capacity, sum(held) as held, sum(sold) as sold
    from onceward.capacity_pools where group_id is not null group by group_id
) p on p.group_id = g.id
where (t.capacity, t.held, t.sold) is distinct from (coalesce(p.capacity, 0), coalesce(p.held, 0), coalesce(p.sold, 0))
union all
select format('claim %s belongs to group %s, its pool to group %s', c.id, c.group_id, p.group_id)
from onceward.capacity_claims c
join onceward.capacity_pools p on p.id = c.pool_id
where c.state in ('held', 'sold') and c.group_id is distinct from p.group_id
limit $1
