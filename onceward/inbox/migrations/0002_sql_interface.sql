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
    insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, started_at, result, error)
    values (p.seq, p.organization_id, greatest(p.attempts, 1), 'event', p.provider || '/' || p.type, p.status, p.last_attempt_at, p.result,
            case when p.error is not null then jsonb_build_object('type', 'Reported', 'message', p.error, 'reason', v_reason) end);
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
