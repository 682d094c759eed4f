-- Return the ids of the events that have this id at their sender, of the current organization if there is one.
-- It needs no index of its own, which every received webhook would have to maintain: it goes from sender to sender in the
-- unique index on (webhook_id, event_id), with one probe each. It runs with the rights of the owner, because under a policy
-- each probe would read the rows of all other organizations.
create or replace function onceward.events_named(p_event_id text) returns setof bigint
    language sql stable security definer set search_path = pg_catalog, pg_temp rows 2 as $$
with recursive senders as (
    (select e.webhook_id from onceward.webhook_events e order by e.webhook_id limit 1)
    union all
    select (select e.webhook_id from onceward.webhook_events e
             where e.webhook_id > s.webhook_id order by e.webhook_id limit 1)
      from senders s where s.webhook_id is not null
)
select named.seq
  from senders s
 cross join lateral (
    select e.seq, e.organization_id from onceward.webhook_events e
     where e.webhook_id = s.webhook_id and e.event_id = p_event_id limit 1) named
 where onceward.organization() is null or named.organization_id = onceward.organization()
$$;

revoke all on function onceward.events_named(text) from public;
grant execute on function onceward.events_named(text) to onceward_app, onceward_engine;

comment on function onceward.events_named(text) is
    'Return the ids of the events that have this id at their sender, of the current organization if there is one. '
     'It needs no index of its own, which every received webhook would have to maintain: '
     'it goes from sender to sender in the unique index on (webhook_id, event_id), with one probe each. '
     'It runs with the rights of the owner, because under a policy each probe would read the rows of all other organizations.';
