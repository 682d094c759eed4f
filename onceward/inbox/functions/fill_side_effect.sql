-- Give a side effect the organization of its worker or else of its event.
create or replace function onceward.fill_side_effect() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_slug text;
begin
    new.organization_id := onceward.login_organization();
    if new.organization_id is not null then
        -- The key (provider, event_id) is shared by all organizations: the prefix keeps one from taking the keys of another.
        select o.slug into v_slug from onceward.organizations o where o.organization_id = new.organization_id;
        if not starts_with(new.provider, v_slug || ':') is true then
            raise exception 'provider % of a side effect must begin with %: because the worker belongs to this organization',
                new.provider, v_slug using errcode = 'invalid_parameter_value', hint = format('set SIDE_EFFECT_PROVIDER=%s:node', v_slug);
        end if;
        return new;
    end if;
    -- An event id of several organizations leaves it empty: nothing is guessed.
    select min(e.organization_id::text)::uuid into new.organization_id from onceward.webhook_events e
     where e.event_id = new.event_id
    having count(distinct e.organization_id) = 1 and bool_and(e.organization_id is not null);
    return new;
end
$$;
revoke all on function onceward.fill_side_effect() from public;
create or replace trigger fill_side_effect before insert on onceward.webhook_side_effects
    for each row execute function onceward.fill_side_effect();
