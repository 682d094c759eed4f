-- Make an event due now, without a lease. An event that already has a row in work keeps that row.
create or replace function onceward.queue_event(p onceward.webhook_events, p_attempts int) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    v_source onceward.sources;
    v_general text;
    v_task text;
    v_route text;
    v_queue text;
    v_lane text;
begin
    select * into v_source from onceward.sources s where s.webhook_id = p.webhook_id;
    v_route := coalesce(p.route, v_source.name);
    v_general := coalesce(v_source.app || ':', '') || p.provider || '/' || p.type;
    if coalesce(v_source.mode, 'external') = 'external' then
        v_task := v_general;
        v_queue := 'external';
        v_lane := p.webhook_id::text;
    elsif v_source.mode = 'forward' then
        v_task := 'inbox.forward';
        v_queue := 'events';
        v_lane := case when v_source.rate_per_s is not null or v_source.paused_at is not null then 'source:' || p.webhook_id end;
    else
        select t into v_task from onceward.workers w, unnest(w.tasks) t
         where t in (v_route || '/' || p.type, v_general)
         order by t <> v_route || '/' || p.type limit 1;
        v_queue := case when v_task is null then 'unhandled' else 'events' end;
        v_task := coalesce(v_task, v_general);
        v_lane := case when v_source.rate_per_s is not null or v_source.paused_at is not null then 'source:' || p.webhook_id end;
    end if;
    insert into onceward.work as w (id, organization_id, line, kind, task, queue, sort_at, attempts, lane, source, earlier)
    values (p.seq, p.organization_id, onceward.line_of(p.organization_id, null), 'event', v_task, v_queue,
        onceward.now(), p_attempts, v_lane, p.webhook_id,
            greatest(onceward.last_attempt(p.seq) - p_attempts, 0))
    on conflict (id) do update
       set lease = null, claimed_at = null, slot = null, parent_slot = null, cancel = null, dead_reason = null, dead_at = null,
           sort_at = excluded.sort_at, attempts = excluded.attempts, earlier = excluded.earlier, crashes = 0,
               queue = excluded.queue, task = excluded.task;
    perform pg_notify('onceward_work', v_queue);
end
$$;

revoke all on function onceward.queue_event(onceward.webhook_events, int) from public;
grant execute on function onceward.queue_event(onceward.webhook_events, int) to onceward_engine;
