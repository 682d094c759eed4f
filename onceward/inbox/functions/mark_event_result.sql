-- Record how an external program finished an event: success, failed, dead_letter (shown to operators), pending (retry by the
-- policy) or processing (renew the claim).
-- A worker of one organization marks events of that organization's sources only; other events do not exist for it.
-- With a lease, only the holder of the lease can do this.
create or replace function webhook.mark_event_result(
    p_id uuid, p_status public.webhook_event_status, p_error text default null, p_lease bigint default null
) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v record;
    v_waits int[] := '{2, 5, 15, 60}';
    v_outcome text;
    v_own uuid[] := onceward.worker_sources();  -- null: all sources
    v_reason text := onceward.dead_reason_of(p_error);
begin
    select w.id, w.lease, w.claimed_at, w.attempts, coalesce(w.max_attempts, 5) as most, w.queue, e.webhook_id, e.provider into v
      from onceward.webhook_events e join onceward.work w on w.id = e.seq
     where e.id = p_id and (v_own is null or e.webhook_id = any(v_own))
       for update of w;
    if not found then
        if p_lease is not null or not exists (
            select from onceward.webhook_events e where e.id = p_id and (v_own is null or e.webhook_id = any(v_own))
        ) then
            raise exception 'event % is not held under this lease', p_id using errcode = 'OW001';
        end if;
        return;                            -- it has already ended
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

revoke all on function webhook.mark_event_result(uuid, public.webhook_event_status, text, bigint) from public;
grant execute on function webhook.mark_event_result(uuid, public.webhook_event_status, text, bigint)
    to onceward_sql_worker, onceward_organization_worker, onceward_engine;
