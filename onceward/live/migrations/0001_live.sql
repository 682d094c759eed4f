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

create function onceward.begin_feed_life() returns bigint language plpgsql set search_path = pg_catalog, pg_temp as $$
-- The number of this life of the server, made by the first reader after a crash.
begin
    insert into onceward.feed_life default values on conflict do nothing;
    return (select life from onceward.feed_life);
end
$$;
revoke all on function onceward.begin_feed_life() from public;
grant execute on function onceward.begin_feed_life() to onceward_engine;

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

create function onceward.reset_live() returns bigint
    language sql security definer set search_path = pg_catalog, pg_temp
    as 'update onceward.feed_state set epoch = epoch + 1 returning epoch';
comment on function onceward.reset_live() is
    'Make every node run all its queries anew: after a restore, or after writes with session_replication_role = replica.';
revoke all on function onceward.reset_live() from public;
grant execute on function onceward.reset_live() to onceward_engine;

create function onceward.watch_key_type(target regclass, key text) returns text
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    found record;
begin
    select t.typname, t.typtype into found
      from pg_attribute a join pg_type t on t.oid = a.atttypid
     where a.attrelid = target and a.attname = key and a.attnum > 0 and not a.attisdropped;
    if found is null then
        raise exception 'table % has no column %', target, key using errcode = 'undefined_column';
    end if;
    -- Only types whose text is the same however the value was written: numeric 1 and 1.0 are equal and differ as text.
    if found.typtype = 'e' or found.typname in ('text', 'varchar') then return 'text';
    elsif found.typname = 'uuid' then return 'uuid';
    elsif found.typname in ('int2', 'int4', 'int8') then return 'int';
    elsif found.typname = 'bool' then return 'bool';
    end if;
    raise exception 'column % of % is of type %; a watched key must be uuid, text, an integer, boolean or an enum',
        key, target, found.typname using errcode = 'datatype_mismatch';
end
$$;

-- The statement that a trigger runs over its transition tables. Above 500 different values it says "every key".
create function onceward.watch_statement(relation text, keys text[], sources text[]) returns text
    language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    source text;
    key text;
    parts text[] := '{}';
begin
    foreach source in array sources loop
        if cardinality(keys) = 0 then
            parts := parts || format('(select null::text as key, null::text as value from %s limit 1)', source);
        end if;
        foreach key in array keys loop
            parts := parts || format('select %L::text as key, %I::text as value from %s', key, key, source);
        end loop;
    end loop;
    return format(
        'with touched as materialized (%s), found as materialized (select count(*) as n from touched)
         insert into onceward.feed (relation, key, value)
         select %s, key, value from touched where (select n from found) <= 500
         union all select %2$s, null, null from found where n > 500',
        array_to_string(parts, ' union '), relation);
end
$$;

create function onceward.watch_install(target regclass, keys text[]) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    relation text := case when (select relispartition from pg_class where oid = target)
        then 'pg_partition_root(TG_RELID)::oid' else 'TG_RELID' end;
    operation text;
    name text;
    body text;
    referencing text;
begin
    foreach operation in array array['insert', 'update', 'delete', 'truncate'] loop
        name := format('feed_%s_%s', target::oid, operation);
        case operation
            when 'insert' then
                body := onceward.watch_statement(relation, keys, array['new_rows']);
                referencing := 'referencing new table as new_rows';
            when 'update' then
                body := onceward.watch_statement(relation, keys, array['old_rows', 'new_rows']);
                referencing := 'referencing old table as old_rows new table as new_rows';
            when 'delete' then
                body := onceward.watch_statement(relation, keys, array['old_rows']);
                referencing := 'referencing old table as old_rows';
            else
                body := format('insert into onceward.feed (relation) values (%s)', relation);
                referencing := '';
        end case;
        -- A function for each table: its plan is kept, where one function for all would plan at every statement.
        execute format(
            'create or replace function onceward.%I() returns trigger language plpgsql security definer
                set search_path = pg_catalog, pg_temp as $body$ begin %s; return null; end $body$', name, body);
        execute format('revoke all on function onceward.%I() from public', name);
        execute format(
            'create or replace trigger onceward_feed_%s after %1$s on %s %s for each statement
                execute function onceward.%I()', operation, target, referencing, name);
    end loop;
end
$$;

create function onceward.watch(target regclass, keys text[]) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    kind "char" := (select relkind from pg_class where oid = target);
    wanted text[];
    partition regclass;
begin
    if kind not in ('r', 'p') then
        raise exception '% is not a table: watch the tables that it reads', target using errcode = 'wrong_object_type';
    end if;
    if pg_partition_root(target) <> target then
        raise exception '% is a partition: watch %', target, pg_partition_root(target)
            using errcode = 'wrong_object_type';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('onceward.watch', target::oid::bigint));
    wanted := array(
        select distinct each from unnest(keys || (select w.keys from onceward.watched w where w.relation = target)) each
        where each is not null order by each);
    insert into onceward.watched (relation, keys, types)
    values (target, wanted, array(select onceward.watch_key_type(target, each) from unnest(wanted) each))
    on conflict (relation) do update set keys = excluded.keys, types = excluded.types;
    perform onceward.watch_install(target, wanted);
    for partition in select relid from pg_partition_tree(target) where relid <> target loop
        perform onceward.watch_install(partition, wanted);
    end loop;
end
$$;

create function onceward.watch(target regclass, key text default null) returns void
    language sql set search_path = pg_catalog, pg_temp
    as $$select onceward.watch(target, case when key is null then '{}'::text[] else array[key] end)$$;
comment on function onceward.watch(regclass, text) is
    'Let live queries depend on a table: its changes go to the feed, named by the value of `key`. Further calls add keys; call again after adding a partition.';

create function onceward.unwatch(target regclass) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    operation text;
    member regclass;
begin
    for member in select target union select relid from pg_partition_tree(target) loop
        foreach operation in array array['insert', 'update', 'delete', 'truncate'] loop
            execute format('drop trigger if exists onceward_feed_%s on %s', operation, member);
            execute format('drop function if exists onceward.%I()', format('feed_%s_%s', member::oid, operation));
        end loop;
    end loop;
    delete from onceward.watched where relation = target;
end
$$;

revoke all on function onceward.watch(regclass, text[]), onceward.watch(regclass, text), onceward.unwatch(regclass),
    onceward.watch_install(regclass, text[]), onceward.watch_statement(text, text[], text[]),
    onceward.watch_key_type(regclass, text) from public;

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
