-- Notify the administrators of every new dead letter, except of messages that get another attempt or are notices themselves.
create or replace function onceward.notice_dead_letter() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_event record;
begin
    if new.kind = 'message' and exists (
        select from onceward.messages m join onceward.notifications n on n.id = m.notification
         where m.id = new.id and (n.round = 1 or n.type in ('DEAD_LETTER', 'WEBHOOK_DEAD_LETTER', 'CRON_FAILURE'))) then
        return null;    -- it gets another attempt; and a notice about notices that cannot be sent would never end
    end if;
    if new.kind = 'event' then
        select e.event_id, e.type, e.provider into v_event from onceward.webhook_events e where e.seq = new.id;
        insert into onceward.notices (organization_id, type, severity, title, details, group_key, caused_by)
        values (new.organization_id, 'WEBHOOK_DEAD_LETTER', 'fatal',
                initcap(v_event.provider) || ' webhook processing failed permanently',
                jsonb_build_object('dead_letter_id', new.id, 'event_id', v_event.event_id, 'event_type', v_event.type,
                                   'attempts', new.attempts + 1, 'reason', new.dead_reason),
                'dead-letters', new.id);
        return null;
    end if;
    insert into onceward.notices (organization_id, type, severity, title, details, group_key, caused_by)
    values (new.organization_id, 'DEAD_LETTER', 'fatal', 'Dead letter: ' || new.task,
            jsonb_build_object('dead_letter_id', new.id, 'kind', new.kind, 'task', new.task, 'attempts', new.attempts + 1,
                               'reason', new.dead_reason),
            'dead-letters', new.id);
    return null;
end
$$;

revoke all on function onceward.notice_dead_letter() from public;

-- The trigger fires only for statements that set the column, so claims and acknowledgements do not pay for it.
create or replace trigger notice_dead_letter after update of dead_reason on onceward.work
    for each row when (new.dead_reason is not null and old.dead_reason is null)
    execute function onceward.notice_dead_letter();
