-- Update the status of a delivery, and let the outcome act on its endpoint: pause it, open its circuit breaker, disable it,
-- or close the breaker.
create or replace function onceward.settled_delivery(p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
declare
    v_endpoint uuid;
    v_ends boolean := p_outcome in ('failed', 'dead_letter', 'unknown', 'cancelled', 'discarded');
begin
    update onceward.deliveries d
       set status = case when p_outcome = 'success' and p_result ? 'skipped' then 'skipped'
                         when p_outcome in ('success', 'failed', 'dead_letter', 'cancelled') then p_outcome
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
        -- Retries have a queue of their own. An endpoint with limits stays in one queue, because its limits cover all attempts.
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
         -- Deliveries that were running when the breaker opened tell nothing new.
         where l.open_until is null or l.open_until <= clock_timestamp() or excluded.open_until is not null;
    end if;
    if p_error ->> 'reason' = 'tries_used_up' then
        perform onceward.publish_exhausted(p_id, p_number, p_error);
    end if;
    if p_error ? 'disable' then
        perform onceward.disable_endpoint(v_endpoint, p_error ->> 'disable', jsonb_build_object('status', p_error -> 'status'));
    end if;
end
$$;
