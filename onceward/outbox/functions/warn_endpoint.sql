-- Warn the owner of a failing endpoint once, until the endpoint is enabled again. False: already warned, or not active.
create or replace function onceward.warn_endpoint(p_endpoint uuid, p_details jsonb) returns boolean language plpgsql as $$
declare
    v onceward.endpoints;
begin
    update onceward.endpoints e set warned_at = onceward.now()
     where e.endpoint_id = p_endpoint and e.active and e.warned_at is null
    returning * into v;
    if not found then
        return false;
    end if;
    perform onceward.note_endpoint(v, 'warning', p_details);
    return true;
end
$$;
