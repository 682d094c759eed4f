-- Send a delivery again, whatever its outcome: 'resent', 'running' (it is being sent), 'gone' (it does not exist, or its
-- body was pruned) or 'disabled' (its endpoint).
create or replace function onceward.resend(p_id bigint) returns text language plpgsql as $$
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
       set sort_at = onceward.now(), attempts = 0, crashes = 0, dead_reason = null, dead_at = null, cancel = null,
           earlier = onceward.last_attempt(p_id)
     where w.id = p_id and w.lease is null;
    if not found then
        if exists (select from onceward.work w where w.id = p_id) then
            return 'running';
        end if;
        insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at, lane, cap, ordered, earlier)
        select p_id, v.organization_id, onceward.line_of(v.organization_id, null), 'delivery',
               case when limited then 'outbox.deliver' else 'outbox.redeliver' end,
               case when limited then 'deliveries' else 'deliveries-retry' end,
               onceward.now(), v.endpoint_id::text, coalesce(v.max_in_flight, 10), nullif(v.ordered, false), onceward.last_attempt(p_id)
          from (select v.ordered or v.rate_per_s is not null or v.max_in_flight is not null as limited) l;
    end if;
    update onceward.deliveries set status = 'pending', failed_at = null where id = p_id;
    return 'resent';
end
$$;
