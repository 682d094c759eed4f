-- Claim the event that has waited longest, of one external source or of all that are not paused. The claim is valid for as long as
-- onceward.sql_claim_expiry says.
create or replace function webhook.claim_next_event(p_webhook_id uuid default null)
    returns table (id uuid, webhook_id uuid, event_id text, payload jsonb, signature text, lease bigint)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_seq bigint;
    v_lease bigint := onceward.new_lease();
    v_paused text[] := array(select p.source::text from onceward.paused_sources p);
begin
    perform webhook.release_expired();
    if p_webhook_id is null then
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
grant execute on function webhook.claim_next_event(uuid) to onceward_sql_worker, onceward_engine;
