-- Return whether a dashboard user or an API key may still act in the organization of this transaction: as an operator, or with one of
-- these roles of a desk. Work that goes on after the request that started it asks again.
create or replace function onceward.may_still_act(p_kind text, p_id uuid, p_roles text[]) returns boolean
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select case p_kind
        when 'session' then exists (
            select from onceward.users u left join onceward.memberships m on m.user_id = u.user_id
                                                                          and m.organization_id = onceward.organization()
             where u.user_id = p_id and u.disabled_at is null
               and (u.admin or m.role in ('owner', 'operator') or m.desk_roles && p_roles))
        when 'key' then exists (
            select from onceward.api_keys k
             where k.key_id = p_id and k.revoked_at is null and (k.expires_at is null or k.expires_at > onceward.now())
               and (k.organization_id is null or k.organization_id = onceward.organization()))
        else false end
$$;

revoke all on function onceward.may_still_act(text, uuid, text[]) from public;
grant execute on function onceward.may_still_act(text, uuid, text[]) to onceward_app, onceward_engine;
