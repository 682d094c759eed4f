-- Write to the feed whose access has changed, so that every node checks their live connections again within seconds.
-- The relation 0 is no table: the key is the kind of the credential or holder, the value its id.
create or replace function onceward.access_changed() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    gone jsonb := to_jsonb(old);
begin
    if tg_argv[0] = 'user' then
        -- A key shares the access of the person who created it.
        insert into onceward.feed (relation, key, value)
        select 0, 'key', k.key_id from onceward.api_keys k where k.owner_id = (gone ->> 'user_id')::uuid and k.revoked_at is null;
    end if;
    insert into onceward.feed (relation, key, value) values (0, tg_argv[0], gone ->> (tg_argv[0] || '_id'));
    return null;
end
$$;

revoke all on function onceward.access_changed() from public;

create or replace trigger access_changed
    after delete or update of revoked_at, expires_at, scopes, apps, sources, addresses, owner_id, organization_id on onceward.api_keys
    for each row execute function onceward.access_changed('key');
create or replace trigger access_changed after delete on onceward.sessions
    for each row execute function onceward.access_changed('session');
create or replace trigger access_changed after delete or update of disabled_at, admin on onceward.users
    for each row execute function onceward.access_changed('user');
create or replace trigger access_changed after delete or update of role, desk_roles on onceward.memberships
    for each row execute function onceward.access_changed('user');
create or replace trigger access_changed after delete or update of second_factor_required on onceward.organizations
    for each row execute function onceward.access_changed('organization');
