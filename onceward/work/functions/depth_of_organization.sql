-- Count the unfinished work of an organization by state, each number exact up to p_most, and return for how long the oldest due row waits.
-- It runs with the rights of the owner and finds the rows through the organization's lines: under a policy each probe would read
-- the rows of all other organizations. The caller may act for this organization or for all.
create or replace function onceward.depth_of_organization(
    p_organization uuid, p_most int,
    out due bigint, out later bigint, out retrying bigint, out running bigint, out dead bigint, out more boolean,
    out oldest_s double precision
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
with own as (
    select onceward.line_of(p_organization, null) as first, onceward.end_of_owner(onceward.line_of(p_organization, null)) as last
     where onceward.organization() is null or onceward.organization() = p_organization
), paused as (
    select array(select p.source from onceward.paused_sources p) as sources
), outside as materialized (
    select w.sort_at, w.attempts
      from own cross join paused cross join onceward.queues_outside_lanes() q (name)
     cross join lateral (
        select w.sort_at, w.attempts, w.source from onceward.work w
         where w.queue = q.name and w.line >= own.first and w.line < own.last
           and w.lease is null and w.lane is null and w.dead_reason is null
         limit p_most + 1) w
     where q.name <> 'unhandled' and (w.source is null or not w.source = any(paused.sources))
     limit p_most + 1
), inside as materialized (
    select w.sort_at, w.attempts
      from own cross join paused
     cross join (select onceward.queues_in_ordered_lanes() union select onceward.queues_in_other_lanes()) q (name)
     cross join lateral (
        select w.sort_at, w.attempts, w.source from onceward.work w
         where w.queue = q.name and w.line >= own.first and w.line < own.last
           and w.lane is not null and w.lease is null and w.dead_reason is null
         limit p_most + 1) w
     where q.name <> 'unhandled' and (w.source is null or not w.source = any(paused.sources))
     limit p_most + 1
), waiting as (
    select sort_at, attempts from outside union all select sort_at, attempts from inside
), running as (
    -- No index contains running work, because every claim would have to change it: `claims` lists it.
    select count(*) from own cross join onceward.claims c cross join lateral unnest(c.ids) i (id)
      join onceward.work w on w.id = i.id and w.lease = c.lease and w.organization_id = p_organization
), dead as (
    select count(*) from (
        select from own join onceward.work w on w.organization_id = p_organization
         where w.dead_reason is not null and w.queue <> 'unhandled' limit p_most + 1) d
)
select count(*) filter (where w.sort_at <= onceward.now()), count(*) filter (where w.sort_at > onceward.now()),
       count(*) filter (where w.sort_at > onceward.now() and w.attempts > 0),
       (select count from running), (select count from dead), count(*) > p_most or (select count from dead) > p_most,
       extract(epoch from onceward.now() - min(w.sort_at) filter (where w.sort_at <= onceward.now()))::float8
  from waiting w
$$;

revoke all on function onceward.depth_of_organization(uuid, int) from public;
grant execute on function onceward.depth_of_organization(uuid, int) to onceward_app, onceward_engine;
