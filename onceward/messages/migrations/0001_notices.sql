-- Notices for administrators: rows that any part writes in its own transaction and that messages turns into mail,
-- Slack and dashboard entries, a whole storm into one.

create table onceward.notices (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid,
    type text not null,
    severity text not null check (severity in ('info', 'warn', 'error', 'fatal')),
    title text not null,
    details jsonb not null default '{}',
    channels text[],                        -- null: mail, Slack and dashboard
    audience text not null default 'admin' check (audience in ('admin', 'fraud', 'accounting', 'security')),
    group_key text not null,                -- notices of one group go out together
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    told_at timestamptz,                    -- when it became part of a message
    told_in bigint                          -- which notification that was
);
comment on table onceward.notices is 'What administrators should know. Written with what it is about, told by the notifier.';
create index notices_untold on onceward.notices (group_key, id) where told_at is null;
create index notices_told on onceward.notices (group_key, told_at desc) where told_at is not null;
select onceward.protect('onceward.notices');

create function onceward.notify(
    p_type text, p_severity text, p_title text, p_details jsonb default '{}', p_channels text[] default null,
    p_audience text default 'admin', p_group text default null
) returns bigint language sql as $$
    insert into onceward.notices (organization_id, type, severity, title, details, channels, audience, group_key, caused_by)
    values (onceward.organization(), p_type,
            case lower(p_severity) when 'warning' then 'warn' when 'high' then 'error' when 'critical' then 'fatal'
                 else lower(p_severity) end,
            left(p_title, 500), coalesce(p_details, '{}'), p_channels, p_audience, coalesce(p_group, p_type),
            onceward.cause())
    returning id
$$;
comment on function onceward.notify(text, text, text, jsonb, text[], text, text) is
    'Tell the administrators, if and only if this transaction commits. Notices with the same group share a message.';

create function onceward.notice_dead_letter() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if new.kind = 'message' and exists (
        select from onceward.messages m join onceward.notifications n on n.id = m.notification
         where m.id = new.id and (n.round = 1 or n.type in ('DEAD_LETTER', 'CRON_FAILURE'))) then
        return null;    -- it is tried once more; and an alarm about alarms that cannot be sent would never end
    end if;
    insert into onceward.notices (organization_id, type, severity, title, details, group_key, caused_by)
    values (new.organization_id, 'DEAD_LETTER', 'error', 'Dead letter: ' || new.task,
            jsonb_build_object('id', new.id, 'kind', new.kind, 'task', new.task, 'reason', new.dead_reason),
            'dead-letters', new.id);
    return null;
end
$$;
revoke all on function onceward.notice_dead_letter() from public;
-- Fires only for statements that set the column: claims and acknowledgements pay nothing.
create trigger notice_dead_letter after update of dead_reason on onceward.work
    for each row when (new.dead_reason is not null and old.dead_reason is null)
    execute function onceward.notice_dead_letter();
