-- Find events by the sender's id alone, without an index that every webhook received would pay for.

create function onceward.events_named(p_event_id text) returns setof bigint
    language sql stable security definer set search_path = pg_catalog, pg_temp rows 2 as $$
-- Hops over the senders in the unique index on (webhook_id, event_id), one probe each: also those that have no source.
-- With the rights of the owner, because under a policy each hop would read past the rows of all other organizations.
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
comment on function onceward.events_named(text) is 'Ids of the events that a sender calls so; of the organization acted for, if any.';
