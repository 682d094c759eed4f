-- Queue a message from any language, if and only if this transaction commits. A key is used once: the same key again returns the
-- first message. `recipient` is an address or the ref of a recipient; with `address` it is the ref. The text comes from the
-- version of the template with which the latest process started. The function runs with the rights of its owner, so that
-- onceward_producer needs none on the tables; it writes for onceward.producing_for() only.
create or replace function onceward.send(
    template text, recipient text, key text, data jsonb default '{}', channel text default null, address text default null,
    locale text default null, timezone text default null, not_before timestamptz default null,
    expires_at timestamptz default null, trace text default null,
    out id bigint, out duplicate boolean
) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_organization uuid := onceward.producing_for();
    v_template record;
    v_options jsonb;
    v_channel text;
    v_category text;
    v_address text := trim(send.address);
    v_recipient text := trim(send.recipient);
    v_line record;
begin
    select c.name, c.version, c.max_attempts, c.own, t.content into v_template
      from onceward.current_templates c
      join onceward.templates t on t.name = c.name and t.version = c.version and t.organization_id is null
     where c.name = send.template;
    if not found then
        raise exception 'onceward.send: there is no template %', coalesce(send.template, 'null') using errcode = '22023',
            hint = 'a process of the app records its templates when it starts: select name from onceward.current_templates';
    end if;
    v_options := v_template.content -> 'options';
    v_category := coalesce(v_options ->> 'category', 'transactional');
    v_channel := coalesce(send.channel, v_options ->> 'channel', 'email');
    if not v_template.own ? v_channel then
        raise exception 'onceward.send: channel must be one of %, not %',
            (select string_agg(k, ', ' order by k) from jsonb_object_keys(v_template.own) k), v_channel using errcode = '22023';
    end if;
    if send.key is null or length(send.key) not between 1 and 500 then
        raise exception 'onceward.send: key must have 1 to 500 characters, not %', coalesce(length(send.key), 0) using errcode = '22023';
    end if;
    if send.data is null or jsonb_typeof(send.data) <> 'object' then
        raise exception 'onceward.send: data must be a JSON object, not %',
            coalesce(jsonb_typeof(send.data), 'null') using errcode = '22023';
    end if;
    if length(send.data::text) > 262144 then
        raise exception 'onceward.send: data has % characters, more than the maximum of 262144', length(send.data::text)
            using errcode = '22023';
    end if;
    if coalesce(v_recipient, '') = '' then
        raise exception 'onceward.send: recipient must be an address or the ref of a recipient' using errcode = '22023';
    end if;
    if send.expires_at <= send.not_before then
        raise exception 'onceward.send: expires_at must be later than not_before' using errcode = '22023';
    end if;
    if v_address is null and (
           v_channel = 'email' and v_recipient ~ '^[^@\s]+@[^@\s]+$'
        or v_channel in ('sms', 'whatsapp') and v_recipient ~ '^\+[1-9][0-9]{6,14}$'
        or v_channel = 'slack' and v_recipient ~ '^([#@]|[CDGU][A-Z0-9]{6,}$)'
        or v_channel = 'dashboard') then
        v_recipient := case when v_channel = 'email' then lower(v_recipient) else v_recipient end;
        v_address := v_recipient;
    end if;
    v_address := case when v_channel = 'email' then lower(v_address) else v_address end;

    if v_organization is not null then
        insert into onceward.templates (organization_id, name, version, content)
        values (v_organization, v_template.name, v_template.version, v_template.content) on conflict do nothing;
    end if;
    send.id := nextval('onceward.ids');
    insert into onceward.messages
        (id, organization_id, key, channel, template, version, category, policy, caused_by, token, recipient, address, data, locale,
         timezone, scheduled_for, expires_at, bulk, context)
    values (send.id, v_organization, send.key, v_channel, v_template.name, v_template.version, v_category,
            coalesce(v_options ->> 'policy', 'quick'), onceward.cause(),
            case when v_category <> 'transactional' then gen_random_uuid() end, v_recipient, v_address, send.data, send.locale,
            send.timezone, send.not_before, send.expires_at, coalesce((v_options ->> 'bulk')::boolean, false),
            case when send.trace is not null then jsonb_build_object('trace', left(send.trace, 600)) end)
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key) do nothing;
    send.duplicate := not found;
    if send.duplicate then
        select m.id into send.id from onceward.messages m
         where coalesce(m.organization_id, '00000000-0000-0000-0000-000000000000')
               = coalesce(v_organization, '00000000-0000-0000-0000-000000000000') and m.key = send.key;
        return;
    end if;
    select l.queue, l.lane, l.cap into v_line from onceward.message_line(
        v_channel, v_organization, coalesce((v_options ->> 'bulk')::boolean, false),
        array(select jsonb_array_elements_text(v_template.own -> v_channel))) l;
    insert into onceward.work (id, organization_id, line, kind, task, queue, lane, cap, sort_at, max_attempts)
    values (send.id, v_organization, onceward.line_of(v_organization, null), 'message', 'message:' || v_channel, v_line.queue,
            v_line.lane, case when v_line.lane is not null then v_line.cap end,
            greatest(coalesce(send.not_before, onceward.now()), onceward.now()), v_template.max_attempts);
    if send.not_before is null or send.not_before <= onceward.now() then
        perform onceward.wake_idle_workers(v_line.queue);
    end if;
end
$$;

comment on function onceward.send(text, text, text, jsonb, text, text, text, text, timestamptz, timestamptz, text) is
    'Queue a message if and only if this transaction commits. The same key again returns the first message.';
revoke all on function onceward.send(text, text, text, jsonb, text, text, text, text, timestamptz, timestamptz, text) from public;
grant execute on function onceward.send(text, text, text, jsonb, text, text, text, text, timestamptz, timestamptz, text)
    to onceward_app, onceward_engine, onceward_producer;
