-- The feed of changes in watched tables. Triggers write it in the transaction of the change.
-- A reader keeps its previous snapshot and reads the rows that became visible since then, so neither the order of commits nor
-- a long transaction matters. Rows are removed with DELETE only: TRUNCATE would wait for readers and hide rows from them.

create table onceward.feed (
    xid xid8 not null default pg_current_xact_id(),
    relation oid not null,
    key text,                              -- null: every key of the table
    value text                             -- the value of the key; null for SQL null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
comment on table onceward.feed is
    'Keys that changed in watched tables, by transaction. Rows are removed a few minutes after all nodes could read them.';
create index feed_xid on onceward.feed (xid);
grant select, insert, delete on onceward.feed to onceward_engine;

create table onceward.feed_state (
    one boolean primary key default true check (one),
    epoch bigint not null default 1,       -- increased when the feed cannot be trusted; then every reader starts again
    trimmed pg_snapshot                    -- rows that were visible to this snapshot may have been removed
);
insert into onceward.feed_state default values;
grant select, update on onceward.feed_state to onceward_engine;

-- PostgreSQL empties an unlogged table when it recovers from a crash, and only then. This table uses that: transaction ids that
-- were assigned but not yet on disk are assigned again after a crash, so a snapshot from before the crash says nothing about
-- the transactions after it. Another number in this table means that the server has crashed in between.
create unlogged table onceward.feed_life (
    one boolean primary key default true check (one),
    life bigint not null default floor(random() * 9007199254740991)::bigint
);
comment on table onceward.feed_life is
    'Identifies the time since the last crash of PostgreSQL. The table is unlogged on purpose: a crash empties it.';
grant select, insert on onceward.feed_life to onceward_engine;

create table onceward.feed_marks (
    taken_at timestamptz not null default clock_timestamp(),
    snapshot pg_snapshot not null default pg_current_snapshot()
);
comment on table onceward.feed_marks is 'Snapshots with their times. Trimming removes only rows that have been visible for long enough.';
grant select, insert, delete on onceward.feed_marks to onceward_engine;

create table onceward.watched (
    relation regclass primary key,
    keys text[] not null default '{}',
    types text[] not null default '{}',
    check (cardinality(keys) = cardinality(types))
);
comment on table onceward.watched is 'Tables that live queries may depend on, with the key columns whose values the feed contains.';
grant select on onceward.watched to onceward_engine, onceward_app;

-- Topics (messages that are written in the transaction of their cause), presence (leases), and the nodes that serve browsers.

create table onceward.topic_messages (
    id bigint primary key default nextval('onceward.ids'),
    xid xid8 not null default pg_current_xact_id(),
    organization_id uuid,
    topic text not null check (topic <> '' and length(topic) <= 300),
    payload jsonb not null,
    caused_by bigint default onceward.cause(),
    created_at timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0.05);
comment on table onceward.topic_messages is
    'Broadcast messages. Readers use snapshots as for the feed. The latest messages of a topic are kept for replay.';
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
    expires_at timestamptz not null,       -- business time; the presences of this node end then
    report jsonb not null default '{}'
) with (fillfactor = 50);
comment on table onceward.live_nodes is 'Processes that serve live queries: their load, their progress, and the lease of their presences.';
grant select, insert, update, delete on onceward.live_nodes to onceward_engine;
grant select (node, expires_at) on onceward.live_nodes to onceward_app;

create table onceward.presence (
    organization_id uuid,
    place text not null check (place <> '' and length(place) <= 300),
    user_id text not null,
    holder uuid not null,                  -- one open connection, or one lease from the API
    node uuid,                             -- the node whose lease keeps it valid
    status text not null check (status in ('online', 'away')),
    since timestamptz not null default onceward.now(),
    expires_at timestamptz,                -- without a node: the end of its own lease
    primary key (holder, place),
    check ((node is null) <> (expires_at is null))
);
comment on table onceward.presence is 'Who is present where. Without a valid lease a person is offline.';
create index presence_place on onceward.presence (place, organization_id);
create index presence_node on onceward.presence (node) where node is not null;
create index presence_expires on onceward.presence (expires_at) where expires_at is not null;
select onceward.protect('onceward.presence');
select onceward.watch('onceward.presence', key => 'place');

-- `onceward trace` finds rows by their cause, and must not read the whole table.

create index topic_messages_caused_by on onceward.topic_messages (caused_by) where caused_by is not null;
