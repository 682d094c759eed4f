-- Return the names of the queues with waiting work outside lanes, in ordered lanes, and in other lanes. Each name costs one index probe,
-- however many rows the queue has.
create or replace function onceward.queues_outside_lanes() returns setof text language sql stable as $$
    with recursive named (queue) as (
        (select w.queue from onceward.work w where w.lease is null and w.lane is null and w.dead_reason is null
          order by w.queue limit 1)
        union all
        select (select w.queue from onceward.work w
                 where w.queue > n.queue and w.lease is null and w.lane is null and w.dead_reason is null
                 order by w.queue limit 1)
          from named n where n.queue is not null
    )
    select queue from named where queue is not null
$$;

create or replace function onceward.queues_in_ordered_lanes() returns setof text language sql stable as $$
    with recursive named (queue) as (
        (select w.queue from onceward.work w
          where w.lane is not null and w.ordered and w.lease is null and w.dead_reason is null
          order by w.queue limit 1)
        union all
        select (select w.queue from onceward.work w
                 where w.queue > n.queue and w.lane is not null and w.ordered and w.lease is null and w.dead_reason is null
                 order by w.queue limit 1)
          from named n where n.queue is not null
    )
    select queue from named where queue is not null
$$;

create or replace function onceward.queues_in_other_lanes() returns setof text language sql stable as $$
    with recursive named (queue) as (
        (select w.queue from onceward.work w
          where w.lane is not null and w.ordered is not true and w.lease is null and w.dead_reason is null
          order by w.queue limit 1)
        union all
        select (select w.queue from onceward.work w
                 where w.queue > n.queue and w.lane is not null and w.ordered is not true and w.lease is null
                   and w.dead_reason is null
                 order by w.queue limit 1)
          from named n where n.queue is not null
    )
    select queue from named where queue is not null
$$;
