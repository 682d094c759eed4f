-- Notify the administrators if and only if this transaction commits. Notices with the same group share a message.
create or replace function onceward.notify(
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
    'Notify the administrators if and only if this transaction commits. Notices with the same group share a message.';
