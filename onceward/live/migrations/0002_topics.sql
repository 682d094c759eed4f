-- Topics (messages written in the transaction that causes them), presence (leases) and the nodes that serve browsers.

create table onceward.topic_messages (
    id bigint primary key default nextval('onceward.ids'),
    xid xid8 not null default pg_current_xact_id(),
    organization_id uuid,
    topic text not null check (topic <> '' and length(topic) <= 300),
    payload jsonb not null,
    caused_by bigint default onceward.cause(),
    created_at timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0.05);
comment on table onceward.topic_messages is 'Broadcasts. Read by snapshot like the feed; the last ones of a topic are kept for replay.';
create index topic_messages_xid on onceward.topic_messages (xid);
create index topic_messages_topic on onceward.topic_messages (topic, organization_id, id desc);
create index topic_messages_created on onceward.topic_messages using brin (created_at);
select onceward.protect('onceward.topic_messages');
revoke update, delete on onceward.topic_messages from onceward_app;

create table onceward.live_nodes (
    node uuid primary key,
    name text not null,
    started_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null,       -- business time: the presence this node vouches for ends then
    report jsonb not null default '{}'
) with (fillfactor = 50);
comment on table onceward.live_nodes is 'Processes that serve live queries: what they hold, how far they are, and the lease behind their presence.';
grant select, insert, update, delete on onceward.live_nodes to onceward_engine;
grant select (node, expires_at) on onceward.live_nodes to onceward_app;

create table onceward.presence (
    organization_id uuid,
    place text not null check (place <> '' and length(place) <= 300),
    user_id text not null,
    holder uuid not null,                  -- one open connection, or one lease taken through the API
    node uuid,                             -- vouched for by this node's lease
    status text not null check (status in ('online', 'away')),
    since timestamptz not null default onceward.now(),
    expires_at timestamptz,                -- without a node: the end of its own lease
    primary key (holder, place),
    check ((node is null) <> (expires_at is null))
);
comment on table onceward.presence is 'Who is where. Offline is the absence of a living lease.';
create index presence_place on onceward.presence (place, organization_id);
create index presence_node on onceward.presence (node) where node is not null;
create index presence_expires on onceward.presence (expires_at) where expires_at is not null;
select onceward.protect('onceward.presence');
select onceward.watch('onceward.presence', key => 'place');
