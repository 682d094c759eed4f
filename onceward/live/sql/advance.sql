-- What became visible since the snapshot with xmax $1 and xip $2, and the snapshot that it was read with.
-- The second look at visibility keeps out rows that a restored dump brought along with numbers of another life.
with at as materialized (select pg_current_snapshot() as snapshot),
changed as (
    select relation, key, value, xid from onceward.feed where xid >= $1::text::xid8
    union all
    select relation, key, value, xid from onceward.feed where xid = any ($2::text[]::xid8[])
),
said as (
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
       (select json_agg(json_build_array(organization_id, topic, id, created_at, payload) order by id) from said
         where pg_visible_in_snapshot(xid, at.snapshot)) as messages
  from at, onceward.feed_state state
