-- Return the changes and messages that have become visible since the snapshot with xmax $1 and xip $2, and the new snapshot.
-- The check with pg_visible_in_snapshot excludes rows of a restored dump, whose transaction ids come from another server life.
with at as materialized (select pg_current_snapshot() as snapshot),
changed as (
    select relation, key, value, xid from onceward.feed where xid >= $1::text::xid8
    union all
    select relation, key, value, xid from onceward.feed where xid = any ($2::text[]::xid8[])
),
sent as (
    select id, organization_id, topic, payload, created_at, xid from onceward.topic_messages
     where xid >= $1::text::xid8 and topic = any ($3::text[])
    union all
    select id, organization_id, topic, payload, created_at, xid from onceward.topic_messages
     where xid = any ($2::text[]::xid8[]) and topic = any ($3::text[])
)
select at.snapshot::text as snapshot, state.epoch,
       coalesce((select life from onceward.feed_life), onceward.begin_feed_life()) as life, state.trimmed::text as trimmed,
       (select jsonb_agg(distinct jsonb_build_array(relation::int8, key, value)) from changed
         where pg_visible_in_snapshot(xid, at.snapshot)) as changes,
       (select json_agg(json_build_array(organization_id, topic, id, created_at, payload) order by id) from sent
         where pg_visible_in_snapshot(xid, at.snapshot)) as messages
  from at, onceward.feed_state state
