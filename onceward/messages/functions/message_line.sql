-- Return the queue, lane and cap of a message. An organization with an account of its own (one of the secrets p_own) has its own
-- line: `message.CHANNEL.own`, lane by lane. The others share the installation's account, in turn. Bulk messages have a lane apart.
create or replace function onceward.message_line(
    p_channel text, p_organization uuid, p_bulk boolean, p_own text[], out queue text, out lane text, out cap smallint
) language sql stable as $$
    select 'message.' || p_channel || case when exists (
               select from onceward.secrets s where s.organization_id = p_organization and s.name = any(p_own)) then '.own' else '' end,
           case when p_channel = 'dashboard' then null
                when p_bulk then coalesce(p_organization::text, 'platform') || ':bulk'
                else p_organization::text end,
           -- How many messages of a lane may wait for a limit or a connection at once: so many go before that of another lane.
           (case when p_channel in ('email', 'push') then 32 else 8 end / case when p_bulk then 2 else 1 end)::smallint
$$;
