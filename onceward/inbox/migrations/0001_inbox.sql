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
        perform onceward.record_attempts(array[row(
            v.id, v.organization_id, 1, 'event', v.task, 'dead_letter', null, null, clock_timestamp(), null,
            jsonb_build_object('type', 'PayloadInvalid', 'message', p_said, 'reason', p_reason)
        )::onceward.attempts]);
        perform onceward.settled_event(v.id, 'dead_letter', 1, null, jsonb_build_object(
            'said', p_reason || ': ' || p_said));
    end loop;
end
$$;

create table onceward.prune_events (
    seq bigint primary key                 -- unfinished, or a dead letter, when its age was reached
);
grant select, insert, update, delete on onceward.prune_events to onceward_engine;

-- Events for other languages: plain INSERT and UPDATE of webhook_events, and two functions to claim and to mark.
-- Only events of sources in mode `external` are handed out here; an unknown webhook_id belongs to the source `sql`.

do $$
begin
    if to_regtype('public.webhook_event_status') is null then
        create type public.webhook_event_status as enum ('pending', 'processing', 'success', 'failed', 'dead_letter');
        -- Stored as text: operators of enums are not leakproof, and an index on one is lost under row-level security.
        create cast (public.webhook_event_status as text) with inout as implicit;
    end if;
    if to_regclass('public.webhook_events') is not null then
        raise exception 'public.webhook_events exists and is not ours: rename it, then migrate again';
    end if;
end
$$;

create view public.webhook_events with (security_invoker = true) as
select id, webhook_id, event_id, payload, signature, status, attempts, last_attempt_at, processed_at, error, received_at,
       provider, type, organization_id, result, caused_by, seq
  from onceward.webhook_events;
comment on view public.webhook_events is
    'What was received and what became of it. Rows may be inserted; setting status takes an event through its states.';
grant select on public.webhook_events to onceward_app, onceward_engine;
grant select, insert, update on public.webhook_events to onceward_sql_worker;

create index work_external on onceward.work (lane, sort_at)
    where queue = 'external' and lease is null and dead_reason is null;
create index work_external_due on onceward.work (sort_at)
    where queue = 'external' and lease is null and dead_reason is null;
create index work_external_held on onceward.work (claimed_at) where queue = 'external' and lease is not null;

create function onceward.is_external(p_webhook_id uuid) returns boolean
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
select coalesce((select s.mode = 'external' from onceward.sources s where s.webhook_id = p_webhook_id), true)
$$;
revoke all on function onceward.is_external(uuid) from public;
grant execute on function onceward.is_external(uuid) to onceward_sql_worker, onceward_engine;

grant select on onceward.webhook_events to onceward_sql_worker;
grant insert (id, webhook_id, event_id, payload, signature, status, attempts, last_attempt_at, processed_at, error, received_at,
              type, caused_by) on onceward.webhook_events to onceward_sql_worker;
grant update (status, attempts, last_attempt_at, processed_at, error, result) on onceward.webhook_events to onceward_sql_worker;
create policy sql_worker on onceward.webhook_events for all to onceward_sql_worker
    using (onceward.is_external(webhook_id)) with check (onceward.is_external(webhook_id));

create function onceward.new_lease() returns bigint
    language sql volatile set search_path = pg_catalog, pg_temp as $$
select ('x' || left(replace(gen_random_uuid()::text, '-', ''), 15))::bit(60)::bigint + 1
$$;

create function onceward.dead_reason_of(p_error text) returns text
    language sql immutable set search_path = pg_catalog, pg_temp as $$
-- A closed set, so that it can be a label; the text itself stays in the error.
select case when split_part(p_error, ':', 1) in ('max_attempts_exceeded', 'payload_invalid', 'timeout', 'worker_lost', 'no_handler')
            then split_part(p_error, ':', 1) else 'permanent' end
$$;

create function onceward.fill_event() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- What a plain INSERT does not say about the event.
declare
    v_source onceward.sources;
begin
    select * into v_source from onceward.sources s where s.webhook_id = new.webhook_id;
    if not found then
        select * into v_source from onceward.sources s where s.name = 'sql';
    end if;
    new.provider := v_source.provider;
    new.organization_id := coalesce(new.organization_id, v_source.organization_id, onceward.organization());
    new.type := coalesce(new.type, left(coalesce(new.payload ->> 'type', new.payload ->> 'event', new.payload ->> 'event_type'), 200),
                         'unknown');
    new.caused_by := coalesce(new.caused_by, onceward.cause());
    if new.status = 'processing' then
        new.status := 'pending';           -- nobody holds it: a claim is made by claiming
    end if;
    return new;
end
$$;
revoke all on function onceward.fill_event() from public;
create trigger fill before insert on onceward.webhook_events
    for each row when (new.origin = 'sql') execute function onceward.fill_event();

create function onceward.queue_event(p onceward.webhook_events, p_attempts int) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
-- Make an event work again, due now, under nobody's lease; whatever work it was before is the same work.
declare
    v_source onceward.sources;
    v_task text := p.provider || '/' || p.type;
    v_route text;
    v_queue text;
    v_lane text;
begin
    select * into v_source from onceward.sources s where s.webhook_id = p.webhook_id;
    v_route := coalesce(p.route, v_source.name);
    if coalesce(v_source.mode, 'external') = 'external' then
        v_queue := 'external';
        v_lane := p.webhook_id::text;
    else
        select t into v_task from onceward.workers w, unnest(w.tasks) t
         where t in (v_route || '/' || p.type, p.provider || '/' || p.type)
         order by t <> v_route || '/' || p.type limit 1;
        v_queue := case when v_task is null then 'unhandled' else 'events' end;
        v_task := coalesce(v_task, p.provider || '/' || p.type);
        v_lane := case when v_source.rate_per_s is not null then 'source:' || p.webhook_id end;
    end if;
    if v_source.paused_at is not null then
        v_queue := 'paused';
    end if;
    insert into onceward.work as w (id, organization_id, kind, task, queue, sort_at, attempts, lane)
    values (p.seq, p.organization_id, 'event', v_task, v_queue, onceward.now(), p_attempts, v_lane)
    on conflict (id) do update
       set lease = null, claimed_at = null, slot = null, parent_slot = null, cancel = null, dead_reason = null, dead_at = null,
           sort_at = excluded.sort_at, attempts = excluded.attempts, crashes = 0, queue = excluded.queue, task = excluded.task;
    perform pg_notify('onceward_work', v_queue);
end
$$;
revoke all on function onceward.queue_event(onceward.webhook_events, int) from public;

create function onceward.count_outcome(p_webhook_id uuid, p_provider text, p_outcome text, p_reason text) returns void
    language sql set search_path = pg_catalog, pg_temp as $$
insert into onceward.webhook_counts
select 'processing', p_webhook_id, p_provider, case when p_outcome = 'success' then 'success' else 'error' end
union all
select 'dead_letter', p_webhook_id, p_provider, p_reason where p_outcome = 'dead_letter'
$$;
revoke all on function onceward.count_outcome(uuid, text, text, text) from public;

create function onceward.end_event(p onceward.webhook_events) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
-- A plain UPDATE has ended an event: its work goes, or stays as a dead letter, and the attempt is on record.
declare
    v_reason text := onceward.dead_reason_of(p.error);
begin
    if p.status = 'dead_letter' then
        perform onceward.queue_event(p, greatest(p.attempts - 1, 0));
        update onceward.work set dead_reason = v_reason, dead_at = onceward.now() where id = p.seq;
    else
        delete from onceward.work where id = p.seq;
    end if;
    perform onceward.record_attempts(array[row(
        p.seq, p.organization_id, greatest(p.attempts, 1), 'event', p.provider || '/' || p.type, p.status, null, p.last_attempt_at,
        clock_timestamp(), p.result,
        case when p.error is not null then jsonb_build_object('type', 'Reported', 'message', p.error, 'reason', v_reason) end
    )::onceward.attempts]);
    perform onceward.count_outcome(p.webhook_id, p.provider, p.status, v_reason);
end
$$;
revoke all on function onceward.end_event(onceward.webhook_events) from public;

create function onceward.event_inserted() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if new.status = 'pending' then
        perform onceward.queue_event(new, new.attempts);
    elsif new.status = 'dead_letter' then
        perform onceward.end_event(new);
    end if;
    return null;
end
$$;
revoke all on function onceward.event_inserted() from public;
create trigger inserted after insert on onceward.webhook_events
    for each row when (new.origin = 'sql') execute function onceward.event_inserted();

create function onceward.event_updated() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- Somebody set the status by hand: 'pending' is due at once, whoever held it has lost it; the others end it.
begin
    if new.status = 'pending' then
        perform onceward.queue_event(new, new.attempts);
        if old.status in ('dead_letter', 'failed', 'success') then
            -- A replay by hand: on record like any other.
            insert into onceward.webhook_counts values ('replay', new.webhook_id, new.provider, 'sql:' || session_user);
            insert into onceward.audit_log (organization_id, action, entity_type, entity_id, actor, reason, metadata)
            values (new.organization_id, 'event.replayed', 'event', new.seq::text, 'sql:' || session_user, 'UPDATE of webhook_events',
                    jsonb_build_object('event_id', new.event_id, 'was', old.status, 'error', old.error));
        end if;
    elsif new.status = 'processing' then
        update onceward.work set lease = onceward.new_lease(), claimed_at = clock_timestamp()
         where id = new.seq and lease is null and dead_reason is null;
        if not found and old.status <> 'processing' then
            raise exception 'event % is not waiting, so it cannot be taken', new.event_id using errcode = 'OW005';
        end if;
    elsif new.status is distinct from old.status or new.status = 'dead_letter' then
        perform onceward.end_event(new);
    end if;
    return null;
end
$$;
revoke all on function onceward.event_updated() from public;
create trigger updated after update of status on onceward.webhook_events
    for each row when (new.settles = old.settles) execute function onceward.event_updated();

create schema webhook;
grant usage on schema webhook to onceward_sql_worker, onceward_engine;

create function webhook.release_expired(p_older_than interval default null) returns int
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- Claims through SQL have no heartbeat: one that is too old is taken back, and counts as an attempt.
declare
    v_age interval := coalesce(p_older_than,
        make_interval(secs => coalesce(nullif(current_setting('onceward.sql_claim_expiry_s', true), '')::int, 900)));
    v record;
    v_count int := 0;
    v_error jsonb := '{"type": "WorkerLost", "reason": "worker_lost", "said": "worker_lost: the claim expired"}';
begin
    for v in
        select w.id, w.lease, w.claimed_at, w.attempts, coalesce(w.max_attempts, 5) as most
          from onceward.work w
         where w.queue = 'external' and w.lease is not null and w.claimed_at < clock_timestamp() - v_age
         order by w.id for update skip locked
    loop
        perform onceward.settle(v.id, v.lease, 0, case when v.attempts + 1 >= v.most then 'dead_letter' else 'retry' end,
                                v.claimed_at, null, v_error, onceward.now(), 'worker_lost');
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;

create function webhook.claim_next_event(p_webhook_id uuid default null)
    returns table (id uuid, webhook_id uuid, event_id text, payload jsonb, signature text, lease bigint)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- Take the event that has waited longest, of one source or of all external ones. It is this caller's for 15 minutes.
#variable_conflict use_column
declare
    v_seq bigint;
    v_lease bigint := onceward.new_lease();
begin
    perform webhook.release_expired();
    if p_webhook_id is null then
        select w.id into v_seq from onceward.work w
         where w.queue = 'external' and w.lease is null and w.dead_reason is null and w.sort_at <= onceward.now()
         order by w.sort_at limit 1 for update skip locked;
    else
        select w.id into v_seq from onceward.work w
         where w.queue = 'external' and w.lane = p_webhook_id::text and w.lease is null and w.dead_reason is null
           and w.sort_at <= onceward.now()
         order by w.sort_at limit 1 for update skip locked;
    end if;
    if v_seq is null then
        return;
    end if;
    update onceward.work w set lease = v_lease, claimed_at = clock_timestamp() where w.id = v_seq;
    return query
        update onceward.webhook_events e
           set status = 'processing', attempts = e.attempts + 1, last_attempt_at = onceward.now(), settles = e.settles + 1
         where e.seq = v_seq
        returning e.id, e.webhook_id, e.event_id, e.payload, e.signature, v_lease;
end
$$;

create function webhook.mark_event_result(
    p_id uuid, p_status public.webhook_event_status, p_error text default null, p_lease bigint default null
) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- Say how it ended: success, failed (ended), dead_letter (ended, shown to operators), pending (again, by the policy),
-- processing (still at it: the claim starts anew). With a lease, only its holder can.
declare
    v record;
    v_waits int[] := '{2, 5, 15, 60}';
    v_outcome text;
    v_reason text := onceward.dead_reason_of(p_error);
begin
    select w.id, w.lease, w.claimed_at, w.attempts, coalesce(w.max_attempts, 5) as most, w.queue, e.webhook_id, e.provider into v
      from onceward.webhook_events e join onceward.work w on w.id = e.seq
     where e.id = p_id
       for update of w;
    if not found then
        if p_lease is not null or not exists (select from onceward.webhook_events e where e.id = p_id) then
            raise exception 'event % is not held under this lease', p_id using errcode = 'OW001';
        end if;
        return;                            -- it has ended already
    end if;
    if v.queue <> 'external' then
        raise exception 'event % is not of a source in mode external', p_id using errcode = 'OW005';
    end if;
    if p_lease is not null and v.lease is distinct from p_lease then
        raise exception 'event % is no longer held under this lease', p_id using errcode = 'OW001';
    end if;
    if p_status = 'processing' then
        update onceward.work w set claimed_at = clock_timestamp() where w.id = v.id and w.lease is not null;
        return;
    end if;
    if v.lease is null then
        update onceward.work w set lease = onceward.new_lease(), claimed_at = clock_timestamp(), dead_reason = null, dead_at = null
         where w.id = v.id returning w.lease, w.claimed_at into v.lease, v.claimed_at;
    end if;
    v_outcome := case when p_status = 'pending' and v.attempts + 1 >= v.most then 'dead_letter'
                      when p_status = 'pending' then 'retry' else p_status::text end;
    if p_status = 'pending' and v_outcome = 'dead_letter' then
        v_reason := 'max_attempts_exceeded';
    end if;
    perform onceward.settle(v.id, v.lease, 0, v_outcome, v.claimed_at, null,
        case when p_error is not null or v_outcome = 'dead_letter' then jsonb_build_object(
            'type', 'Reported', 'message', coalesce(p_error, v_reason), 'reason', v_reason, 'said', coalesce(p_error, v_reason)) end,
        onceward.now() + make_interval(secs => v_waits[least(v.attempts + 1, 4)]), v_reason);
    perform onceward.count_outcome(v.webhook_id, v.provider, v_outcome, v_reason);
end
$$;

revoke all on function webhook.release_expired(interval) from public;
revoke all on function webhook.claim_next_event(uuid) from public;
revoke all on function webhook.mark_event_result(uuid, public.webhook_event_status, text, bigint) from public;
grant execute on function webhook.release_expired(interval) to onceward_sql_worker, onceward_engine;
grant execute on function webhook.claim_next_event(uuid) to onceward_sql_worker, onceward_engine;
grant execute on function webhook.mark_event_result(uuid, public.webhook_event_status, text, bigint)
    to onceward_sql_worker, onceward_engine;

-- Find events by the sender's id alone, without an index that every webhook received would pay for.

create function onceward.events_named(p_event_id text) returns setof bigint
    language sql stable security definer set search_path = pg_catalog, pg_temp rows 2 as $$
-- Hops over the senders in the unique index on (webhook_id, event_id), one probe each: also those that have no source.
-- With the rights of the owner, because under a policy each hop would read past the rows of all other organizations.
with recursive senders as (
    (select e.webhook_id from onceward.webhook_events e order by e.webhook_id limit 1)
    union all
    select (select e.webhook_id from onceward.webhook_events e
             where e.webhook_id > s.webhook_id order by e.webhook_id limit 1)
      from senders s where s.webhook_id is not null
)
select named.seq
  from senders s
 cross join lateral (
    select e.seq, e.organization_id from onceward.webhook_events e
     where e.webhook_id = s.webhook_id and e.event_id = p_event_id limit 1) named
 where onceward.organization() is null or named.organization_id = onceward.organization()
$$;
revoke all on function onceward.events_named(text) from public;
grant execute on function onceward.events_named(text) to onceward_app, onceward_engine;
comment on function onceward.events_named(text) is 'Ids of the events that a sender calls so; of the organization acted for, if any.';

-- A source that is deleted keeps its row, so that its events keep its name; the name itself is free for another.
alter table onceward.sources add column deleted_at timestamptz;
alter table onceward.sources drop constraint sources_name_key;
create unique index sources_name on onceward.sources (name) where deleted_at is null;
grant select (deleted_at) on onceward.sources to onceward_app;
