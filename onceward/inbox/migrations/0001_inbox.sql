-- The inbox: who may send, what was received (once per source and event id), and what was turned away.

create function onceward.time_uuid() returns uuid
    language sql volatile parallel safe as $$
-- Random, but in order of time (version 7): new rows go to the end of the index instead of all over it.
select encode(set_byte(stamped, 6, (get_byte(stamped, 6) & 15) | 112), 'hex')::uuid
  from (select substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
               || substring(uuid_send(gen_random_uuid()) from 7) as stamped) made
$$;

create table onceward.sources (
    webhook_id uuid primary key default gen_random_uuid(),
    organization_id uuid references onceward.organizations on delete cascade,
    name text not null unique check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$' and name <> 'payments'),
    provider text not null,
    mode text not null default 'ack' check (mode in ('ack', 'inline', 'external')),
    secrets bytea,                         -- sealed: all live secrets, and those options that are secret too
    options jsonb not null default '{}',
    public_url text,
    tolerance_s int not null default 300 check (tolerance_s between 1 and 86400),
    ordering boolean not null default false,
    rate_per_s double precision check (rate_per_s is null or (rate_per_s > 0 and mode = 'ack')),
    max_body_bytes int not null default 1048576 check (max_body_bytes between 1024 and 33554432),
    retention_days int check (retention_days > 0),
    origin text not null default 'stored' check (origin in ('stored', 'environment', 'builtin')),
    paused_at timestamptz,
    paused_by text,
    created_at timestamptz not null default onceward.now(),
    changed_at timestamptz not null default clock_timestamp()
);
comment on table onceward.sources is
    'Senders of webhooks. Without an organization a source speaks for the platform; its handlers say whom they act for.';
select onceward.protect('onceward.sources');
revoke select, insert, update, delete on onceward.sources from onceward_app;
grant select (webhook_id, organization_id, name, provider, mode, public_url, ordering, rate_per_s, max_body_bytes,
              retention_days, origin, paused_at, created_at) on onceward.sources to onceward_app;

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
    payload jsonb,                         -- null: pruned, or nothing that jsonb can hold
    raw bytea,                             -- the body, byte for byte
    headers jsonb,                         -- of an allow-list
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
    route text,                            -- the name its handler is looked up under; null: the source's
    settles int not null default 0,        -- counted up by the engine: an UPDATE that leaves it alone came from outside
    unique (webhook_id, event_id)
) with (fillfactor = 85);
comment on table onceward.webhook_events is
    'Bodies of events, inserted once; seq is the id of the work. Status is in no index: its update stays within the page.';
create index webhook_events_caused_by on onceward.webhook_events (caused_by) where caused_by is not null;
select onceward.protect('onceward.webhook_events');
revoke delete on onceward.webhook_events from onceward_app;

create table onceward.webhook_transmissions (
    webhook_id uuid not null,
    transmission_id text not null,         -- the sender's, or a hash of it
    body_sha256 bytea not null,
    received_at timestamptz not null default onceward.now(),
    primary key (webhook_id, transmission_id)
);
comment on table onceward.webhook_transmissions is
    'For senders that sign only a checksum of the body: under a transmission id no second body is accepted.';
create index webhook_transmissions_received on onceward.webhook_transmissions (received_at);
grant select, insert, update, delete on onceward.webhook_transmissions to onceward_engine;

create unlogged table onceward.webhook_counts (
    metric text not null,
    webhook_id uuid not null,
    provider text not null,
    label text not null
);
comment on table onceward.webhook_counts is
    'What happened outside a process that is scraped: a node takes the rows and counts them. Lost in a crash, at no harm.';
grant select, insert, delete on onceward.webhook_counts to onceward_engine;

create function onceward.settled_event(p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
-- What an attempt's end means for the event: waiting again, or ended one way or another. Number 0: it is replayed.
declare
    v_again boolean := p_outcome in ('retry', 'snoozed', 'crashed');
    v record;
begin
    update onceward.webhook_events
       set status = case when v_again then 'pending' when p_outcome in ('success', 'dead_letter') then p_outcome else 'failed' end,
           attempts = case when p_number = 0 then 0 when p_outcome = 'snoozed' then attempts else greatest(attempts, p_number) end,
           last_attempt_at = case when p_number > 0 then onceward.now() end,
           processed_at = case when not v_again then onceward.now() end,
           error = coalesce(p_error ->> 'said',
                            nullif(concat_ws(': ', p_error ->> 'reason', p_error ->> 'type', p_error ->> 'message'), '')),
           result = coalesce(p_result, result),
           settles = settles + 1
     where seq = p_id
    returning webhook_id, provider into v;
    if p_number = 0 then
        insert into onceward.webhook_counts
        values ('replay', v.webhook_id, v.provider, coalesce(nullif(current_setting('onceward.operator', true), ''), 'operator'));
    elsif p_outcome = 'dead_letter' and p_error ->> 'reason' = 'worker_lost' then
        insert into onceward.webhook_counts values ('dead_letter', v.webhook_id, v.provider, 'worker_lost');
    end if;
end
$$;

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
    more int not null default 0            -- how many of the same kind were only counted since the last sample
);
comment on table onceward.webhook_rejects is
    'A sample of what was turned away, never its body: a ring of slots, so it cannot grow.';
create sequence onceward.webhook_reject_slots maxvalue 5000 cycle;
select onceward.protect('onceward.webhook_rejects');
revoke insert, update, delete on onceward.webhook_rejects from onceward_app;

create table onceward.unhandled_types (
    provider text not null,
    type text not null,
    first_seen timestamptz not null default onceward.now(),
    primary key (provider, type)
);
comment on table onceward.unhandled_types is 'Types that were warned about: once each, by whichever node saw one first.';
grant select, insert, update, delete on onceward.unhandled_types to onceward_engine;

create function onceward.bury_events(p_ids bigint[], p_reason text, p_said text) returns void language plpgsql as $$
-- Events that can never be handled are dead letters from the start.
declare
    v record;
begin
    for v in
        update onceward.work set dead_reason = p_reason, dead_at = onceward.now() where id = any(p_ids)
        returning id, organization_id, task
    loop
        insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, error)
        values (v.id, v.organization_id, 1, 'event', v.task, 'dead_letter',
                jsonb_build_object('type', 'PayloadInvalid', 'message', p_said, 'reason', p_reason));
        perform onceward.settled_event(v.id, 'dead_letter', 1, null, jsonb_build_object(
            'said', p_reason || ': ' || p_said));
    end loop;
end
$$;

create table onceward.prune_events (
    seq bigint primary key                 -- unfinished, or a dead letter, when its age was reached
);
grant select, insert, update, delete on onceward.prune_events to onceward_engine;
