-- Follow a status that somebody set by hand. 'pending' makes the event due now and ends the current lease; any other status
-- ends the event.
create or replace function onceward.event_updated() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if new.status = 'pending' then
        perform onceward.queue_event(new, new.attempts);
        if old.status in ('dead_letter', 'failed', 'success') then
            -- A replay by hand is counted like any other replay.
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

create or replace trigger updated after update of status on onceward.webhook_events
    for each row when (new.settles = old.settles) execute function onceward.event_updated();
