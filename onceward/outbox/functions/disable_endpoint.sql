-- Stop all sending to an endpoint. Waiting deliveries stop at once; the sweeper ends them in small steps.
create or replace function onceward.disable_endpoint(p_endpoint uuid, p_reason text, p_details jsonb default '{}') returns boolean
    language plpgsql as $$
declare
    v onceward.endpoints;
begin
    update onceward.endpoints e
       set active = false, disabled_at = onceward.now(), disabled_reason = p_reason, version = nextval('onceward.ids')
     where e.endpoint_id = p_endpoint and e.active
    returning * into v;
    if not found then
        return false;
    end if;
    insert into onceward.lanes (queue, lane, paused_at)
    values ('deliveries', p_endpoint::text, onceward.now()), ('deliveries-retry', p_endpoint::text, onceward.now())
    on conflict (queue, lane) do update set paused_at = excluded.paused_at;
    if p_reason in ('failing', 'gone', 'asked') then
        perform onceward.note_endpoint(v, 'disabled', p_details || jsonb_build_object('reason', p_reason));
    end if;
    return true;
end
$$;
