-- The feed: what changed in watched tables, written by triggers in the transaction that changed it.
-- A reader keeps its previous snapshot and takes what became visible since, so neither the order of commits nor a long
-- transaction elsewhere matters. Rows are removed by DELETE only: TRUNCATE would wait for, and hide rows from, readers.

create table onceward.feed (
    xid xid8 not null default pg_current_xact_id(),
    relation oid not null,
    key text,                              -- null: every key of the table
    value text                             -- with a key: the value, null for SQL null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
comment on table onceward.feed is 'Keys that changed in watched tables, by transaction. Trimmed a few minutes after everyone could read them.';
create index feed_xid on onceward.feed (xid);
grant select, insert, delete on onceward.feed to onceward_engine;

create table onceward.feed_state (
    one boolean primary key default true check (one),
    epoch bigint not null default 1,       -- raised when the feed cannot be trusted: every reader starts afresh
    trimmed pg_snapshot                    -- what this snapshot saw may be gone from the feed
);
insert into onceward.feed_state default values;
grant select, update on onceward.feed_state to onceward_engine;

-- PostgreSQL empties an unlogged table when it recovers from a crash, and only then. That is what this one is for:
-- transaction ids that were given out and not yet on disk are given out again after a crash, so a reader's snapshot
-- from before says nothing about the transactions after it. Another number here means another life of the server.
create unlogged table onceward.feed_life (
    one boolean primary key default true check (one),
    life bigint not null default floor(random() * 9007199254740991)::bigint
);
comment on table onceward.feed_life is 'Names the time since the last crash of PostgreSQL. Unlogged on purpose: a crash empties it.';
grant select, insert on onceward.feed_life to onceward_engine;

create table onceward.feed_marks (
    taken_at timestamptz not null default clock_timestamp(),
    snapshot pg_snapshot not null default pg_current_snapshot()
);
comment on table onceward.feed_marks is 'Snapshots with their times, so that trimming removes only what has been visible for long enough.';
grant select, insert, delete on onceward.feed_marks to onceward_engine;

create table onceward.watched (
    relation regclass primary key,
    keys text[] not null default '{}',
    types text[] not null default '{}',
    check (cardinality(keys) = cardinality(types))
);
comment on table onceward.watched is 'Tables that live queries may depend on, with the columns whose values the feed names.';
grant select on onceward.watched to onceward_engine, onceward_app;

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

-- What an event caused is found by its cause: `onceward trace` must not read a whole table for it.

create index topic_messages_caused_by on onceward.topic_messages (caused_by) where caused_by is not null;
