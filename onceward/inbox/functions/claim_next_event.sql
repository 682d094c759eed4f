-- Claim the event that has waited longest, of one external source or of all that are not paused. A worker of one organization
-- gets events of that organization's sources only. The claim is valid for as long as
-- onceward.sql_claim_expiry says.
create or replace function webhook.claim_next_event(p_webhook_id uuid default null)
    returns table (id uuid, webhook_id uuid, event_id text, payload jsonb, signature text, lease bigint)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_seq bigint;
    v_lease bigint := onceward.new_lease();
    v_own uuid[] := onceward.worker_sources();  -- null: all sources
    v_source text;
    v_paused text[] := array(select p.source::text from onceward.paused_sources p);
begin
    perform webhook.release_expired();
    if v_own is not null then
        -- The source whose event has waited longest comes first. The rows are not locked here: other workers may take them.
        for v_source in
            select s.source::text from unnest(v_own) s (source), lateral (
                select w.sort_at from onceward.work w
                 where w.queue = 'external' and w.lane = s.source::text and w.lease is null and w.dead_reason is null
                   and w.sort_at <= onceward.now()
                 order by w.sort_at limit 1) first
             where s.source = coalesce(p_webhook_id, s.source) and not s.source::text = any(v_paused)
             order by first.sort_at
        loop
            select w.id into v_seq from onceward.work w
             where w.queue = 'external' and w.lane = v_source and w.lease is null and w.dead_reason is null
               and w.sort_at <= onceward.now()
             order by w.sort_at limit 1 for update skip locked;
            exit when v_seq is not null;
        end loop;
    elsif p_webhook_id is null then
        select w.id into v_seq from onceward.work w
         where w.queue = 'external' and w.lease is null and w.dead_reason is null and w.sort_at <= onceward.now()
           and not w.lane = any(v_paused)
         order by w.sort_at limit 1 for update skip locked;
    else
        select w.id into v_seq from onceward.work w
         where w.queue = 'external' and w.lane = p_webhook_id::text and w.lease is null and w.dead_reason is null
           and w.sort_at <= onceward.now() and not w.lane = any(v_paused)
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
        returning e.id, e.webhook_id, e.event_id, onceward.payload_of(e), e.signature, v_lease;
end
$$;

revoke all on function webhook.claim_next_event(uuid) from public;
grant execute on function webhook.claim_next_event(uuid) to onceward_sql_worker, onceward_organization_worker, onceward_engine;
