-- Sources of webhooks, the received events (one per source and event id), and the rejected requests.

create table onceward.sources (
    webhook_id uuid primary key default gen_random_uuid(),
    organization_id uuid references onceward.organizations on delete cascade,
    name text not null check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$' and name <> 'payments'),
    provider text not null,
    -- whose handlers get the events; null: those of the only app that handles the type
    app text check (app ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    mode text not null default 'ack' check (mode in ('ack', 'inline', 'external', 'forward')),
    secrets bytea,                         -- encrypted: all valid secrets, and the secret options
    options jsonb not null default '{}',
    public_url text,
    tolerance_s int not null default 300 check (tolerance_s between 1 and 86400),
    ordering boolean not null default false,
    rate_per_s double precision check (rate_per_s is null or (rate_per_s > 0 and mode = 'ack')),
    requests_per_s double precision check (requests_per_s > 0),  -- accept at most this many requests per second in each process
    requests_at_once int check (requests_at_once > 0),
    max_body_bytes int not null default 1048576 check (max_body_bytes between 1024 and 33554432),
    retention_days int check (retention_days > 0),
    origin text not null default 'stored' check (origin in ('stored', 'environment', 'builtin')),
    paused_at timestamptz,
    paused_by text,
    created_at timestamptz not null default onceward.now(),
    changed_at timestamptz not null default clock_timestamp(),
    deleted_at timestamptz                 -- a deleted source keeps its row, so that its events keep its name
);
create index sources_organization on onceward.sources (organization_id) where organization_id is not null;
-- The name of a deleted source can be used again.
create index sources_name_of on onceward.sources (organization_id, name) where deleted_at is null;
create index sources_any_name on onceward.sources (name);  -- events of a deleted source are found by its name too
create index sources_builtin on onceward.sources (name) where origin = 'builtin' and deleted_at is null;
create unique index sources_name on onceward.sources (name) where deleted_at is null;
comment on table onceward.sources is
    'Senders of webhooks. A source without an organization belongs to the platform; its handlers choose the organization they act for.';
select onceward.protect('onceward.sources');
revoke select, insert, update, delete on onceward.sources from onceward_app;
grant select (webhook_id, organization_id, name, provider, app, mode, public_url, ordering, rate_per_s,
    requests_per_s, requests_at_once, max_body_bytes,
              retention_days, origin, paused_at, created_at, deleted_at) on onceward.sources to onceward_app;

insert into onceward.sources (webhook_id, name, provider, mode, origin)
values ('00000000-0000-4000-8000-00000000050a', 'sql', 'sql', 'external', 'builtin');

create table onceward.webhook_events (
    seq bigint primary key default nextval('onceward.ids'),
    id uuid not null default onceward.time_uuid() unique,
    webhook_id uuid not null default '00000000-0000-4000-8000-00000000050a',
    event_id text not null,
    organization_id uuid,
    provider text not null,
    type text not null,
    payload jsonb,                         -- null: pruned, not representable as jsonb, or still in the body (payload_in_raw)
    payload_in_raw boolean not null default false,  -- the body is the payload: onceward.payload_of() reads it
    raw bytea,                             -- the body, byte for byte
    headers jsonb,                         -- only those of an allow-list
    signature text,
    status text not null default 'pending'
        check (status in ('pending', 'processing', 'success', 'failed', 'dead_letter')),
    attempts int not null default 0,
    last_attempt_at timestamptz,
    processed_at timestamptz,
    error text,
    result jsonb,
    received_at timestamptz not null default onceward.now(),
    caused_by bigint,
    origin text not null default 'sql' check (origin in ('http', 'sql', 'replay')),
    route text,                            -- the name under which the handler is registered; null: the name of the source
    settles int not null default 0,        -- increased by the engine: an UPDATE that does not change it came from outside
    unique (event_id, webhook_id)          -- in this order, it also finds an event by its id alone
) with (fillfactor = 85);
comment on table onceward.webhook_events is
    'Bodies of events, inserted once; seq is the id of the work. No index contains the status, so its update stays within the page.';
-- Compressing with pglz costs more than all the rest of an insert. Outside the row, a body is not copied when the status changes.
do $$
begin
    if (select 'lz4' = any(enumvals) from pg_settings where name = 'default_toast_compression') then
        alter table onceward.webhook_events alter column raw set compression lz4;
    else
        alter table onceward.webhook_events alter column raw set storage external;
    end if;
end
$$;
create index webhook_events_caused_by on onceward.webhook_events (caused_by) where caused_by is not null;
create index webhook_events_organization on onceward.webhook_events (organization_id, seq) where organization_id is not null;
select onceward.protect('onceward.webhook_events');
revoke delete on onceward.webhook_events from onceward_app;

create table onceward.webhook_transmissions (
    webhook_id uuid not null,
    transmission_id text not null,         -- the id at the sender, or a hash of it
    body_sha256 bytea not null,
    received_at timestamptz not null default onceward.now(),
    primary key (webhook_id, transmission_id)
);
comment on table onceward.webhook_transmissions is
    'For senders that sign only a checksum of the body: a transmission id is accepted with one body only.';
create index webhook_transmissions_received on onceward.webhook_transmissions (received_at);
grant select, insert, update, delete on onceward.webhook_transmissions to onceward_engine;

create unlogged table onceward.webhook_counts (
    metric text not null,
    webhook_id uuid not null,
    provider text not null,
    label text not null
);
comment on table onceward.webhook_counts is
    'Counts from outside the processes that Prometheus scrapes: a node takes the rows and adds them to its metrics. A crash may lose rows.';
grant select, insert, delete on onceward.webhook_counts to onceward_engine;

create table onceward.webhook_rejects (
    slot int primary key,
    organization_id uuid,
    at timestamptz not null default onceward.now(),
    source text,
    provider text,
    reason text not null,
    status int not null,
    ip text,
    bytes int,
    more int not null default 0            -- how many similar requests were only counted since the last sample
);
comment on table onceward.webhook_rejects is
    'A sample of the rejected requests, without their bodies. The table is a ring of slots, so it cannot grow.';
create index webhook_rejects_source on onceward.webhook_rejects (source) where status = 429;
create sequence onceward.webhook_reject_slots maxvalue 5000 cycle;
select onceward.protect('onceward.webhook_rejects');
revoke insert, update, delete on onceward.webhook_rejects from onceward_app;

create table onceward.unhandled_types (
    provider text not null,
    type text not null,
    first_seen timestamptz not null default onceward.now(),
    primary key (provider, type)
);
comment on table onceward.unhandled_types is 'Event types without a handler. The first node that sees a type logs one warning.';
grant select, insert, update, delete on onceward.unhandled_types to onceward_engine;

create table onceward.sql_claim_expiry (
    one boolean primary key default true check (one),
    seconds int not null check (seconds > 0)
);
comment on table onceward.sql_claim_expiry is
    'How long a claim through SQL lasts: a copy of ONCEWARD_SQL_CLAIM_EXPIRY_S, which every node writes when it starts.';
insert into onceward.sql_claim_expiry (seconds) values (900);
grant select, update on onceward.sql_claim_expiry to onceward_engine;

-- Events for other languages: plain INSERT and UPDATE of webhook_events, and functions that claim an event and mark its result.
-- They hand out only events of sources in mode `external`. An unknown webhook_id belongs to the source `sql`.

do $$
begin
    if to_regtype('public.webhook_event_status') is null then
        create type public.webhook_event_status as enum ('pending', 'processing', 'success', 'failed', 'dead_letter');
        -- The column is text: the operators of enums are not leakproof, so row-level security could not use an index on an enum.
        create cast (public.webhook_event_status as text) with inout as implicit;
    end if;
    if to_regclass('public.webhook_events') is not null then
        raise exception 'public.webhook_events exists and does not belong to Onceward: rename it, then migrate again';
    end if;
    if to_regclass('public.webhook_side_effects') is not null then
        raise exception 'public.webhook_side_effects exists and does not belong to Onceward: rename it, then migrate again';
    end if;
end
$$;

create index work_external on onceward.work (lane, sort_at)
    where queue = 'external' and lease is null and dead_reason is null;
create index work_external_due on onceward.work (sort_at)
    where queue = 'external' and lease is null and dead_reason is null;
-- Upkeep examines these every second.
create index work_unhandled on onceward.work (id) where queue = 'unhandled' and lease is null and dead_reason is null;
create index work_external_held on onceward.work (claimed_at) where queue = 'external' and lease is not null;

grant select on onceward.webhook_events to onceward_sql_worker;
grant insert (id, webhook_id, event_id, payload, signature, status, attempts, last_attempt_at, processed_at, error, received_at,
              type, caused_by) on onceward.webhook_events to onceward_sql_worker;
grant update (status, attempts, last_attempt_at, processed_at, error, result) on onceward.webhook_events to onceward_sql_worker;
create policy sql_worker on onceward.webhook_events for all to onceward_sql_worker
    using (onceward.is_external(webhook_id)) with check (onceward.is_external(webhook_id));

-- A login of one organization (onceward.sql_logins) handles the events of that organization's sources, and sees no other events.
grant select on onceward.webhook_events to onceward_organization_worker;
grant insert (id, webhook_id, event_id, payload, signature, status, attempts, last_attempt_at, processed_at, error, received_at,
              type, caused_by) on onceward.webhook_events to onceward_organization_worker;
grant update (status, attempts, last_attempt_at, processed_at, error, result) on onceward.webhook_events to onceward_organization_worker;
create policy organization_worker on onceward.webhook_events for all to onceward_organization_worker
    using (webhook_id = any ((select onceward.worker_sources())::uuid[]))
    with check (webhook_id = any ((select onceward.worker_sources())::uuid[]));

-- Side effects of workers in other languages: one row per source, provider and event, whoever claims the event again.
create table onceward.webhook_side_effects (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid,                   -- of the source, filled in
    webhook_id uuid,                        -- the source of the event: named by the worker, or found by the event id
    provider text not null,
    effect_key text not null,               -- provider and source: two senders may use the same event id
    event_id text not null,
    external_id text,
    payload jsonb,
    created_at timestamptz not null default onceward.now(),
    unique (effect_key, event_id)
);
select onceward.protect('onceward.webhook_side_effects');
revoke insert, update, delete on onceward.webhook_side_effects from onceward_app;
grant select, insert on onceward.webhook_side_effects to onceward_sql_worker, onceward_organization_worker;
grant update (external_id, payload) on onceward.webhook_side_effects to onceward_sql_worker, onceward_organization_worker;
create policy sql_worker on onceward.webhook_side_effects for all to onceward_sql_worker using (true) with check (true);
create policy organization_worker on onceward.webhook_side_effects for all to onceward_organization_worker
    using (organization_id = (select onceward.login_organization())) with check (organization_id = (select onceward.login_organization()));

create schema webhook;
grant usage on schema webhook to onceward_sql_worker, onceward_organization_worker, onceward_engine;

-- A vacuum is due after 2 % of the rows have changed, not after the default 20 %: of 100 million rows that would be 20 million,
-- and the indexes would grow meanwhile.
alter table onceward.webhook_events set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
