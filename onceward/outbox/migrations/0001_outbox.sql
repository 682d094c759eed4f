-- Outbound webhooks: who is told (endpoints), of what (published), and one delivery per endpoint and event.

create table onceward.event_types (
    name text primary key check (name ~ '^[a-z0-9_-]+(\.[a-z0-9_-]+)*$' and length(name) <= 128),
    description text not null default '',
    schema jsonb not null default '{}',    -- JSON Schema of `data`
    sample jsonb not null default '{}',    -- an example of `data`
    declared_by text not null,             -- the app, or `api`
    changed_at timestamptz not null default onceward.now()
);
comment on table onceward.event_types is 'The catalogue: what endpoints may subscribe to. Apps write theirs at start.';
grant select on onceward.event_types to onceward_app;
grant select, insert, update, delete on onceward.event_types to onceward_engine;
insert into onceward.event_types (name, description, schema, sample, declared_by)
values ('endpoint.test', 'Sent on request, to see whether an endpoint works.',
        '{"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}',
        '{"message": "If you can read this, your endpoint works."}', 'onceward');

create table onceward.endpoints (
    endpoint_id uuid primary key default gen_random_uuid(),
    organization_id uuid references onceward.organizations on delete cascade,
    url text not null,
    description text not null default '',
    events text[] not null check (cardinality(events) > 0),   -- names, `prefix.*`, or `*`
    channels text[],                       -- null: whatever the channel; else only events of one of these
    headers bytea,                         -- sealed JSON: headers of their own may hold credentials
    metadata jsonb not null default '{}',
    owner text,                            -- who is told when it is disabled
    active boolean not null default true,
    enabled_at timestamptz not null default onceward.now(),   -- failures before do not count
    disabled_at timestamptz,
    disabled_reason text check (disabled_reason in ('manual', 'failing', 'gone', 'asked', 'deleted')),
    warned_at timestamptz,
    max_in_flight smallint check (max_in_flight between 1 and 100),
    rate_per_s double precision check (rate_per_s > 0),
    ordered boolean not null default false,
    retry_waits_s double precision[],      -- null: the schedule of the instance
    ed25519 boolean not null default false,
    direct boolean not null default false, -- made for a URL that came with a request; gets only what is addressed to it
    version bigint not null default nextval('onceward.ids'),  -- changes with everything that sending depends on
    created_at timestamptz not null default onceward.now(),
    deleted_at timestamptz
);
comment on table onceward.endpoints is 'Addresses of customers. A deleted one stays for its history, without secrets.';
create index endpoints_active on onceward.endpoints (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'))
    where active;
create index endpoints_organization on onceward.endpoints (organization_id);
create unique index endpoints_direct on onceward.endpoints
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), md5(url)) where direct and deleted_at is null;
select onceward.protect('onceward.endpoints');

create table onceward.endpoint_secrets (
    secret_id uuid primary key default gen_random_uuid(),
    organization_id uuid,
    endpoint_id uuid not null references onceward.endpoints on delete cascade,
    secret bytea not null,                 -- sealed: the key's bytes
    created_at timestamptz not null default onceward.now(),
    expires_at timestamptz                 -- null: the current one; else it signs along until then
);
create index endpoint_secrets_endpoint on onceward.endpoint_secrets (endpoint_id);
select onceward.protect('onceward.endpoint_secrets');
revoke select, insert, update, delete on onceward.endpoint_secrets from onceward_app;

create table onceward.signing_keys (
    key_id uuid primary key default gen_random_uuid(),
    organization_id uuid references onceward.organizations on delete cascade,
    private_key bytea not null,            -- sealed: an ed25519 seed
    public_key bytea not null,
    created_at timestamptz not null default onceward.now(),
    unique nulls not distinct (organization_id)
);
comment on table onceward.signing_keys is
    'One pair per organization for v1a signatures: with one for all, an organization could speak for another.';
select onceward.protect('onceward.signing_keys');
revoke select, insert, update, delete on onceward.signing_keys from onceward_app;

create table onceward.published (
    id bigint primary key,
    organization_id uuid,
    message_id text not null unique,       -- webhook-id: the same at every endpoint and on every attempt
    type text not null,
    key text,
    fingerprint bytea not null,            -- of type, channels and data: the same key with other content is a mistake
    channels text[],
    body bytea,                            -- as it is sent, fixed here; null: pruned
    caused_by bigint,
    created_at timestamptz not null default onceward.now()
);
comment on table onceward.published is 'Events that were published, each payload once.';
create unique index published_key on onceward.published
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key) where key is not null;
create index published_created on onceward.published (created_at);
create index published_caused_by on onceward.published (caused_by) where caused_by is not null;
select onceward.protect('onceward.published');
revoke update, delete on onceward.published from onceward_app;

create table onceward.deliveries (
    id bigint primary key,                 -- also the id of its work
    organization_id uuid,
    endpoint_id uuid not null,
    type text not null,
    status text not null default 'pending'
        check (status in ('pending', 'success', 'failed', 'dead_letter', 'cancelled')),
    attempts int not null default 0,       -- all that were made, resends included
    response_status smallint,
    error text,
    last_attempt_at timestamptz,
    failed_at timestamptz,                 -- when its quick tries were used up: what auto-disable counts
    caused_by bigint not null,             -- the published event
    created_at timestamptz not null default onceward.now()
) with (fillfactor = 80);
comment on table onceward.deliveries is 'One per event and endpoint; unfinished while a row of onceward.work has the same id.';
create index deliveries_endpoint on onceward.deliveries (endpoint_id, id);
create index deliveries_caused_by on onceward.deliveries (caused_by);
create index deliveries_failed on onceward.deliveries (endpoint_id, failed_at) where failed_at is not null;
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
comment on table onceward.endpoint_notices is 'What an owner is told about an endpoint, written with the decision itself.';
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
    missing boolean not null,              -- also events that the endpoint never got a delivery of
    rate_per_s double precision not null check (rate_per_s > 0),
    state text not null default 'running' check (state in ('running', 'done', 'cancelled')),
    cursor bigint not null default 0,      -- deliveries up to this id are done
    missing_cursor bigint not null default 0,
    matched int not null default 0,
    resent int not null default 0,
    skipped int not null default 0,
    stepped_at timestamptz,
    created_by text not null,
    created_at timestamptz not null default onceward.now(),
    finished_at timestamptz
);
comment on table onceward.resends is 'Bulk resends. Their progress is in the row, so any node goes on where another stopped.';
create index resends_running on onceward.resends (id) where state = 'running';
select onceward.protect('onceward.resends');
revoke insert, update, delete on onceward.resends from onceward_app;

create table onceward.portal_tokens (
    hash bytea primary key,
    organization_id uuid references onceward.organizations on delete cascade,
    endpoint_ids uuid[],                   -- null: every endpoint of the organization
    may_act boolean not null,              -- false: look only
    created_by text not null,
    created_at timestamptz not null default onceward.now(),
    expires_at timestamptz not null
);
comment on table onceward.portal_tokens is 'For the customers of an organization: the consumer page, for a limited time.';
select onceward.protect('onceward.portal_tokens');
revoke select, insert, update, delete on onceward.portal_tokens from onceward_app;

-- Publishing fans out in the publisher's transaction; outcomes are written with what they mean for the endpoint.

create function onceward.fan_out(
    p_published bigint, p_type text, p_channels text[], p_organization uuid, p_endpoint uuid
) returns int language sql as $$
-- One delivery and one piece of work per matching active endpoint, in one statement. p_endpoint: only that one.
with matched as materialized (
    select nextval('onceward.ids') as id, e.*
      from onceward.endpoints e
     where e.active
       and coalesce(e.organization_id, '00000000-0000-0000-0000-000000000000')
           = coalesce(p_organization, '00000000-0000-0000-0000-000000000000')
       and case when p_endpoint is not null then e.endpoint_id = p_endpoint
                else not e.direct
                     and e.events && array(
                         select '*' union all select p_type
                         union all
                         select array_to_string((string_to_array(p_type, '.'))[:n], '.') || '.*'
                           from generate_series(1, cardinality(string_to_array(p_type, '.')) - 1) n)
                     and (e.channels is null or e.channels && p_channels) end
), bodies as (
    insert into onceward.deliveries (id, organization_id, endpoint_id, type, caused_by)
    select m.id, m.organization_id, m.endpoint_id, p_type, p_published from matched m
), work as (
    insert into onceward.work (id, organization_id, kind, task, queue, sort_at, lane, cap, ordered)
    select m.id, m.organization_id, 'delivery', 'outbox.deliver', 'deliveries', onceward.now(), m.endpoint_id::text,
           coalesce(m.max_in_flight, 10), nullif(m.ordered, false)
      from matched m
    returning 1
)
select count(*)::int from work
$$;

create function onceward.publish(
    type text, data json, key text default null, channels text[] default null, endpoint uuid default null,
    out id bigint, out message_id text, out deliveries int, out duplicate boolean, out fingerprint bytea
) language plpgsql as $$
-- An event for every matching endpoint of the organization this transaction acts for. It exists when that commits.
-- The same key again gives the first one back and publishes nothing.
#variable_conflict use_column
declare
    v_organization uuid := onceward.organization();
    v_fingerprint bytea := sha256(convert_to(
        publish.type || E'\n' || coalesce(array_to_string(publish.channels, ','), '') || E'\n' || publish.data::text, 'UTF8'));
begin
    if publish.type is null or publish.type !~ '^[a-z0-9_-]+(\.[a-z0-9_-]+)*$' or length(publish.type) > 128 then
        raise exception 'onceward.publish: type must be lower-case words joined by dots, not %', coalesce(publish.type, 'null')
            using errcode = '22023';
    end if;
    if publish.data is null then
        raise exception 'onceward.publish: data of % must be JSON, not null', publish.type using errcode = '22023';
    end if;
    publish.id := nextval('onceward.ids');
    publish.message_id := 'msg_' || replace(gen_random_uuid()::text, '-', '');
    publish.fingerprint := v_fingerprint;
    publish.duplicate := false;
    insert into onceward.published as p (id, organization_id, message_id, type, key, fingerprint, channels, body, caused_by)
    values (publish.id, v_organization, publish.message_id, publish.type, publish.key, v_fingerprint, publish.channels,
            convert_to(format('{"id":"%s","type":"%s","event":"%s","timestamp":"%s","data":%s}',
                              publish.message_id, publish.type, publish.type,
                              to_char(onceward.now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                              publish.data::text), 'UTF8'),
            onceward.cause())
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'::uuid), key) where key is not null
    do nothing;
    if not found then
        publish.duplicate := true;
        select p.id, p.message_id, p.fingerprint, (select count(*)::int from onceward.deliveries d where d.caused_by = p.id)
          into publish.id, publish.message_id, publish.fingerprint, publish.deliveries
          from onceward.published p
         where coalesce(p.organization_id, '00000000-0000-0000-0000-000000000000'::uuid)
               = coalesce(v_organization, '00000000-0000-0000-0000-000000000000'::uuid) and p.key = publish.key;
        return;
    end if;
    publish.deliveries := onceward.fan_out(publish.id, publish.type, publish.channels, v_organization, publish.endpoint);
end
$$;

create function onceward.disable_endpoint(p_endpoint uuid, p_reason text, p_details jsonb default '{}') returns boolean
    language plpgsql as $$
-- No more is sent to it. What waits is stopped at once, and ended by the sweeper in small steps.
declare
    v onceward.endpoints;
begin
    update onceward.endpoints e
       set active = false, disabled_at = onceward.now(), disabled_reason = p_reason, version = nextval('onceward.ids')
     where e.endpoint_id = p_endpoint and e.active
    returning * into v;
    if not found then
        return false;
    end if;
    insert into onceward.lanes (queue, lane, paused_at)
    values ('deliveries', p_endpoint::text, onceward.now()), ('deliveries-retry', p_endpoint::text, onceward.now())
    on conflict (queue, lane) do update set paused_at = excluded.paused_at;
    if p_reason in ('failing', 'gone', 'asked') then
        perform onceward.note_endpoint(v, 'disabled', p_details || jsonb_build_object('reason', p_reason));
    end if;
    return true;
end
$$;

create function onceward.note_endpoint(p_endpoint onceward.endpoints, p_kind text, p_details jsonb) returns void
    language plpgsql as $$
-- Tell the owner, and where there are notices for administrators, them too.
begin
    insert into onceward.endpoint_notices (organization_id, endpoint_id, kind, owner, details)
    values (p_endpoint.organization_id, p_endpoint.endpoint_id, p_kind, p_endpoint.owner, p_details);
    if to_regclass('onceward.notices') is not null then
        execute 'insert into onceward.notices (organization_id, type, severity, title, details, group_key)
                 values ($1, $2, $3, $4, $5, $6)'
          using p_endpoint.organization_id,
                case p_kind when 'disabled' then 'ENDPOINT_DISABLED' else 'ENDPOINT_FAILING' end, 'warn',
                case p_kind when 'disabled' then 'An endpoint for webhooks was disabled'
                            else 'An endpoint for webhooks is failing' end,
                p_details || jsonb_build_object('endpoint_id', p_endpoint.endpoint_id), 'endpoints';
    end if;
end
$$;

create function onceward.warn_endpoint(p_endpoint uuid, p_details jsonb) returns boolean language plpgsql as $$
-- Once, until it is enabled again.
declare
    v onceward.endpoints;
begin
    update onceward.endpoints e set warned_at = onceward.now()
     where e.endpoint_id = p_endpoint and e.active and e.warned_at is null
    returning * into v;
    if not found then
        return false;
    end if;
    perform onceward.note_endpoint(v, 'warning', p_details);
    return true;
end
$$;

create function onceward.settled_delivery(p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
-- Keep the delivery true, and let its endpoint feel the outcome: parked, tripped, disabled, or well again.
declare
    v_endpoint uuid;
    v_ends boolean := p_outcome in ('failed', 'dead_letter', 'unknown', 'cancelled', 'discarded');
begin
    update onceward.deliveries d
       set status = case when p_outcome in ('success', 'failed', 'dead_letter', 'cancelled') then p_outcome
                         when p_outcome in ('unknown', 'discarded') then 'failed'
                         else 'pending' end,
           attempts = d.attempts + case when p_number > 0 and p_outcome in ('success', 'retry', 'failed') then 1 else 0 end,
           response_status = coalesce((coalesce(p_result, p_error) ->> 'status')::smallint,
                                      case when p_outcome not in ('retry', 'failed') then d.response_status end),
           error = case when p_outcome <> 'success' then left(p_error ->> 'message', 500) end,
           last_attempt_at = case when p_number > 0 then onceward.now() else d.last_attempt_at end,
           failed_at = case when v_ends or (p_error ->> 'counted')::boolean then coalesce(d.failed_at, onceward.now())
                            else d.failed_at end
     where d.id = p_id
    returning d.endpoint_id into v_endpoint;
    if p_outcome = 'success' then
        update onceward.lanes l set failures = 0, open_until = null
         where l.queue in ('deliveries', 'deliveries-retry') and l.lane = v_endpoint::text
           and (l.failures > 0 or l.open_until is not null);
        return;
    end if;
    if p_outcome = 'retry' and p_number > 0 then
        -- Later tries have room of their own. An endpoint with limits keeps to one queue: they hold over all its tries.
        update onceward.work w set queue = 'deliveries-retry', task = 'outbox.redeliver'
          from onceward.endpoints e
         where w.id = p_id and e.endpoint_id = v_endpoint and w.queue = 'deliveries'
           and not e.ordered and e.rate_per_s is null and e.max_in_flight is null;
    end if;
    if p_error ? 'park_s' or (p_error ->> 'trips')::boolean then
        insert into onceward.lanes as l (queue, lane, failures, open_until)
        select q, v_endpoint::text, 1, clock_timestamp() + make_interval(secs => (p_error ->> 'park_s')::float8)
          from unnest(array['deliveries', 'deliveries-retry']) q
        on conflict (queue, lane) do update
           set failures = l.failures + 1,
               open_until = case when excluded.open_until is not null then greatest(l.open_until, excluded.open_until)
                                 when l.failures + 1 >= 5
                                 then clock_timestamp() + make_interval(secs => least(300, 10 * 2 ^ least(l.failures - 4, 10)))
                                 else l.open_until end
         -- What was under way when it opened tells nothing new.
         where l.open_until is null or l.open_until <= clock_timestamp() or excluded.open_until is not null;
    end if;
    if p_error ? 'disable' then
        perform onceward.disable_endpoint(v_endpoint, p_error ->> 'disable', jsonb_build_object('status', p_error -> 'status'));
    end if;
end
$$;

create function onceward.resend(p_id bigint) returns text language plpgsql as $$
-- Send a delivery again, whatever became of it: 'resent', 'running' (it is under way), 'gone' (its body was pruned, or
-- there is none such), 'disabled' (its endpoint is).
declare
    v record;
begin
    select d.endpoint_id, d.organization_id, e.active, e.max_in_flight, e.rate_per_s, e.ordered, p.body is not null as kept
      into v
      from onceward.deliveries d
      join onceward.endpoints e using (endpoint_id)
      join onceward.published p on p.id = d.caused_by
     where d.id = p_id for update of d;
    if not found or not v.kept then
        return 'gone';
    end if;
    if not v.active then
        return 'disabled';
    end if;
    update onceward.work w
       set sort_at = onceward.now(), attempts = 0, crashes = 0, dead_reason = null, dead_at = null, cancel = null
     where w.id = p_id and w.lease is null;
    if not found then
        if exists (select from onceward.work w where w.id = p_id) then
            return 'running';
        end if;
        insert into onceward.work (id, organization_id, kind, task, queue, sort_at, lane, cap, ordered)
        select p_id, v.organization_id, 'delivery',
               case when limited then 'outbox.deliver' else 'outbox.redeliver' end,
               case when limited then 'deliveries' else 'deliveries-retry' end,
               onceward.now(), v.endpoint_id::text, coalesce(v.max_in_flight, 10), nullif(v.ordered, false)
          from (select v.ordered or v.rate_per_s is not null or v.max_in_flight is not null as limited) l;
    end if;
    update onceward.deliveries set status = 'pending', failed_at = null where id = p_id;
    return 'resent';
end
$$;
