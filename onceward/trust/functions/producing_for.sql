-- Return the organization for which a caller of onceward.enqueue, publish or send acts. A login of one organization acts for no
-- other; any other login names the organization in onceward.organization, or acts for the platform.
create or replace function onceward.producing_for() returns uuid
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_named uuid := onceward.organization();
    v_bound uuid;
begin
    select l.organization_id into v_bound from onceward.sql_logins l where l.login = session_user;
    if not found then
        return v_named;
    end if;
    if v_named <> v_bound then
        raise exception 'the login % acts for one organization, and onceward.organization names another', session_user
            using errcode = '42501';
    end if;
    if not exists (select from onceward.organizations o where o.organization_id = v_bound) then
        raise exception 'the organization of the login % was deleted', session_user using errcode = '42501';
    end if;
    return v_bound;
end
$$;

revoke all on function onceward.producing_for() from public;
grant execute on function onceward.producing_for() to onceward_engine;
