-- Return the organization whose slots a key means. Each organization has its own slots; all share a limit in
-- onceward.limits.
create or replace function onceward.limit_scope(p_key text, p_organization uuid) returns uuid
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select case when p_organization is null or exists (select from onceward.limits l where l.name = p_key)
                then '00000000-0000-0000-0000-000000000000' else p_organization end
$$;

revoke all on function onceward.limit_scope(text, uuid) from public;
