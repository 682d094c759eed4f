-- Return what the on_end hook of a message needs to know about it as of now. Personal data are read when the hook runs.
create or replace function onceward.ended_message(p_id bigint) returns jsonb language sql stable as $$
    select jsonb_build_object('key', m.key, 'template', m.template, 'channel', m.channel, 'delivery', m.delivery)
      from onceward.messages m where m.id = p_id
$$;
