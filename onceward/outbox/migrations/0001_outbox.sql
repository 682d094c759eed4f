-- Outbound webhooks: the endpoints of customers, the published events, and one delivery per endpoint and event.

create table onceward.event_types (
    name text primary key check (name ~ '^[a-z0-9_-]+(\.[a-z0-9_-]+)*$' and length(name) <= 128),
    description text not null default '',
    schema jsonb not null default '{}',    -- JSON Schema of `data`
    sample jsonb not null default '{}',    -- an example of `data`
    declared_by text not null,             -- the app, or `api`
    changed_at timestamptz not null default onceward.now()
);
comment on table onceward.event_types is 'The event types that endpoints can subscribe to. Apps write their types at start.';
grant select on onceward.event_types to onceward_app;
grant select, insert, update, delete on onceward.event_types to onceward_engine;
insert into onceward.event_types (name, description, schema, sample, declared_by)
values ('endpoint.test', 'Sent on request, to see whether an endpoint works.',
        '{"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}',
        '{"message": "If you can read this, your endpoint works."}', 'onceward'),
       ('message.attempt.exhausted', 'A delivery to one of your endpoints has failed for good. Sent only to endpoints that name it.',
        '{"type": "object", "required": ["endpointId", "deliveryId", "messageId", "type", "attempts"],
          "properties": {"endpointId": {"type": "string"}, "deliveryId": {"type": "integer"}, "messageId": {"type": "string"},
                         "type": {"type": "string"}, "attempts": {"type": "integer"}, "status": {"type": ["integer", "null"]},
                         "error": {"type": ["string", "null"]}}}',
        '{"endpointId": "7b1a7c0e-8f0e-4b57-9d5f-0f8f2f7c2a11", "deliveryId": 4711, "messageId": "msg_5f2b", "type": "order.paid",
          "attempts": 10, "status": 500, "error": "answered 500; all 10 attempts failed"}', 'onceward');

create table onceward.endpoints (
    endpoint_id uuid primary key default gen_random_uuid(),
    organization_id uuid references onceward.organizations on delete cascade,
    url text not null,
    description text not null default '',
    events text[] not null check (cardinality(events) > 0),   -- names, `prefix.*`, or `*`
    channels text[],                       -- null: all channels; otherwise only events of one of these
    headers bytea,                         -- encrypted JSON, because custom headers may contain credentials
    metadata jsonb not null default '{}',
    owner text,                            -- who is notified when the endpoint is disabled
    active boolean not null default true,
    enabled_at timestamptz not null default onceward.now(),   -- earlier failures do not count
    disabled_at timestamptz,
    disabled_reason text check (disabled_reason in ('manual', 'failing', 'gone', 'asked', 'deleted')),
    warned_at timestamptz,
    max_in_flight smallint check (max_in_flight between 1 and 100),
    rate_per_s double precision check (rate_per_s > 0),
    ordered boolean not null default false,
    retry_waits_s double precision[],      -- null: the schedule of the instance
    ed25519 boolean not null default false,
    filter text,                           -- JMESPath: an event for which it is not true is not sent
    transform text,                        -- JMESPath: its result is sent instead of the event
    auth bytea,                            -- encrypted JSON: how we authenticate (onceward/outbox/endpoint_auth.py)
    source_id uuid,                        -- gets the events that this inbound source forwards, and no others
    direct boolean not null default false, -- created for a URL of a request; receives only events that are addressed to it
    version bigint not null default nextval('onceward.ids'),  -- changes with every setting that sending depends on
    created_at timestamptz not null default onceward.now(),
    deleted_at timestamptz,
    unique (endpoint_id, organization_id)
);
comment on table onceward.endpoints is 'Endpoints of customers. A deleted endpoint keeps its row for the history, without secrets.';
create index endpoints_active on onceward.endpoints (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'))
    where active;
create index endpoints_organization on onceward.endpoints (organization_id);
-- Lists, page by page: of one organization or of none, and of all.
create index endpoints_listed_of on onceward.endpoints
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), created_at, endpoint_id) where deleted_at is null;
create index endpoints_listed on onceward.endpoints (created_at, endpoint_id) where deleted_at is null;
create index endpoints_shown on onceward.endpoints (active, created_at, endpoint_id) where deleted_at is null;
create index endpoints_shown_of on onceward.endpoints (organization_id, active, created_at, endpoint_id) where deleted_at is null;
create index endpoints_in_trouble on onceward.endpoints (disabled_reason, warned_at)
    where deleted_at is null and (not active or warned_at is not null);
create unique index endpoints_direct on onceward.endpoints
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), md5(url)) where direct and deleted_at is null;
select onceward.protect('onceward.endpoints');

-- Counted attempts of each endpoint, so that nobody has to read the history. A loop adds new attempts every few seconds.
create table onceward.endpoint_statistics (
    endpoint_id uuid primary key references onceward.endpoints on delete cascade,
    organization_id uuid,
    succeeded bigint not null default 0,
    failed bigint not null default 0,
    last_triggered_at timestamptz,
    foreign key (endpoint_id, organization_id) references onceward.endpoints (endpoint_id, organization_id) on delete cascade
);
select onceward.protect('onceward.endpoint_statistics');
revoke insert, update, delete on onceward.endpoint_statistics from onceward_app;
create table onceward.endpoint_statistics_mark (
    only_row boolean primary key default true check (only_row),
    counted_until timestamptz not null
);
insert into onceward.endpoint_statistics_mark (counted_until) values (clock_timestamp());
grant select, insert, update, delete on onceward.endpoint_statistics_mark to onceward_engine;

create table onceward.endpoint_secrets (
    secret_id uuid primary key default gen_random_uuid(),
    organization_id uuid,
    endpoint_id uuid not null references onceward.endpoints on delete cascade,
    secret bytea not null,                 -- encrypted: the bytes of the key
    created_at timestamptz not null default onceward.now(),
    expires_at timestamptz,                -- null: the current secret; otherwise it also signs until then
    foreign key (endpoint_id, organization_id) references onceward.endpoints (endpoint_id, organization_id) on delete cascade
);
create index endpoint_secrets_endpoint on onceward.endpoint_secrets (endpoint_id);
select onceward.protect('onceward.endpoint_secrets');
revoke select, insert, update, delete on onceward.endpoint_secrets from onceward_app;

create table onceward.signing_keys (
    key_id uuid primary key default gen_random_uuid(),
    organization_id uuid references onceward.organizations on delete cascade,
    private_key bytea not null,            -- encrypted: an ed25519 seed
    public_key bytea not null,
    created_at timestamptz not null default onceward.now(),
    unique nulls not distinct (organization_id)
);
comment on table onceward.signing_keys is
    'One key pair per organization for v1a signatures. With one pair for all, an organization could sign for another.';
select onceward.protect('onceward.signing_keys');
revoke select, insert, update, delete on onceward.signing_keys from onceward_app;

create table onceward.published (
    id bigint primary key,
    organization_id uuid,
    message_id text not null unique,       -- webhook-id: the same at every endpoint and on every attempt
    type text not null,
    key text,
    fingerprint bytea not null,            -- hash of type, channels and data: the same key with other content is an error
    channels text[],
    body bytea,                            -- the exact bytes that are sent; null: pruned
    caused_by bigint,
    trace text,                            -- W3C traceparent of the span that published it; null without tracing
    headers jsonb,                         -- sent with it; of forwarded events only
    created_at timestamptz not null default onceward.now()
);
comment on table onceward.published is 'Published events. Each payload is stored once.';
create unique index published_key on onceward.published
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key) where key is not null;
create index published_created on onceward.published (created_at);
create index published_without_body on onceward.published (created_at) where body is null;
create index published_caused_by on onceward.published (caused_by) where caused_by is not null;
select onceward.protect('onceward.published');
revoke update, delete on onceward.published from onceward_app;

create table onceward.deliveries (
    id bigint primary key,                 -- also the id of its row in work
    organization_id uuid,
    endpoint_id uuid not null,
    type text not null,
    status text not null default 'pending'
        check (status in ('pending', 'success', 'skipped', 'failed', 'dead_letter', 'cancelled')),
    attempts int not null default 0,       -- all attempts, including resends
    response_status smallint,
    error text,
    last_attempt_at timestamptz,
    failed_at timestamptz,                 -- when the fast retries were used up; auto-disable counts from here
    caused_by bigint not null,             -- the published event
    created_at timestamptz not null default onceward.now()
) with (fillfactor = 80);
comment on table onceward.deliveries is
    'One row per event and endpoint. A delivery is unfinished while a row of onceward.work has the same id.';
create index deliveries_endpoint on onceward.deliveries (endpoint_id, id);
create index deliveries_caused_by on onceward.deliveries (caused_by);
create index deliveries_failed on onceward.deliveries (endpoint_id, failed_at) where failed_at is not null;
create index deliveries_organization on onceward.deliveries (organization_id, id) where organization_id is not null;
select onceward.protect('onceward.deliveries');
revoke delete on onceward.deliveries from onceward_app;

create table onceward.endpoint_notices (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid,
    endpoint_id uuid not null,
    kind text not null check (kind in ('warning', 'disabled')),
    owner text,
    details jsonb not null default '{}',
    created_at timestamptz not null default onceward.now(),
    told_at timestamptz
);
comment on table onceward.endpoint_notices is 'Notices for the owner of an endpoint, written in the transaction of the decision.';
create index endpoint_notices_untold on onceward.endpoint_notices (id) where told_at is null;
create index endpoint_notices_endpoint on onceward.endpoint_notices (endpoint_id, id);
select onceward.protect('onceward.endpoint_notices');
revoke insert, update, delete on onceward.endpoint_notices from onceward_app;

create table onceward.resends (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid,
    endpoint_id uuid,                      -- null: every endpoint of the organization
    verb text not null check (verb in ('recover', 'replay')),
    types text[],
    statuses text[],
    since timestamptz not null,
    until timestamptz not null,
    missing boolean not null,              -- include events without a delivery to the endpoint
    rate_per_s double precision not null check (rate_per_s > 0),
    state text not null default 'running' check (state in ('running', 'done', 'cancelled')),
    cursor bigint not null default 0,      -- deliveries up to this id have been handled
    missing_cursor bigint not null default 0,
    matched int not null default 0,
    resent int not null default 0,
    skipped int not null default 0,
    stepped_at timestamptz,
    created_by text not null,
    created_at timestamptz not null default onceward.now(),
    finished_at timestamptz
);
comment on table onceward.resends is 'Bulk resends. The row contains the progress, so any node can continue where another stopped.';
create index resends_organization on onceward.resends (organization_id, id);
create index resends_running on onceward.resends (id) where state = 'running';
select onceward.protect('onceward.resends');
revoke insert, update, delete on onceward.resends from onceward_app;

create table onceward.portal_tokens (
    hash bytea primary key,
    id uuid not null default gen_random_uuid() unique,
    organization_id uuid references onceward.organizations on delete cascade,
    endpoint_ids uuid[],                   -- null: every endpoint of the organization
    may_act boolean not null,              -- false: read only
    embed_at text[],                       -- origins of the pages that may show the portal in a frame; null: none
    created_by text not null,
    created_at timestamptz not null default onceward.now(),
    expires_at timestamptz not null
);
comment on table onceward.portal_tokens is 'Tokens with which customers of an organization open the portal page for a limited time.';
select onceward.protect('onceward.portal_tokens');
revoke select, insert, update, delete on onceward.portal_tokens from onceward_app;

-- A vacuum is due after 2 % of the rows have changed, not after the default 20 %: of 100 million rows that would be 20 million,
-- and the indexes would grow meanwhile.
alter table onceward.published set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
alter table onceward.deliveries set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
