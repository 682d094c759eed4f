-- Create the five roles if needed, allow the current user to act as each of them, and refuse temporary tables. Repeatable.
-- Roles belong to the whole cluster, so another database or another node may create them at the same time.
do $$
declare
    name text;
    -- Since PostgreSQL 16, creating a role grants its administration only; SET ROLE needs the option `set`.
    separate_set constant boolean := current_setting('server_version_num')::int >= 160000;
    needed constant text := case when separate_set then 'set' else 'member' end;
    options constant text := case when separate_set then ' with inherit false, set true' else '' end;
    inherits constant text := 'grant onceward_app to onceward_engine' || case when separate_set then ' with inherit true' else '' end;
    missing text[] := '{}';
begin
    foreach name in array array['onceward_engine', 'onceward_app', 'onceward_sql_worker', 'onceward_organization_worker',
                               'onceward_producer'] loop
        if not exists (select from pg_roles where rolname = name) then
            begin
                execute format('create role %I nologin %s', name, case name when 'onceward_engine' then 'inherit' else 'noinherit' end);
            exception
                when duplicate_object or unique_violation then null;
                when insufficient_privilege then
                    missing := missing || array[
                        format('create role %I nologin %s', name, case name when 'onceward_engine' then 'inherit' else 'noinherit' end),
                        format('grant %I to %I%s', name, current_user, options)];
                    continue;
            end;
        end if;
        if not pg_has_role(current_user, name, needed) then
            begin
                execute format('grant %I to current_user%s', name, options);
            exception when others then
                null;  -- the next statement checks the result
            end;
        end if;
        if not pg_has_role(current_user, name, needed) then
            missing := missing || format('grant %I to %I%s', name, current_user, options);
        end if;
    end loop;
    -- The engine may do what handlers may do: tables of an app need a grant to onceward_app only.
    if missing = '{}' and not pg_has_role('onceward_engine', 'onceward_app', 'usage') then
        begin
            execute inherits;
            if not separate_set then
                alter role onceward_engine inherit;
            end if;
        exception when others then
            null;  -- the next statement checks the result
        end;
    end if;
    if not exists (select from pg_roles e, pg_roles a where e.rolname = 'onceward_engine' and a.rolname = 'onceward_app'
                      and pg_has_role(e.oid, a.oid, 'usage')) then
        missing := missing || inherits;
    end if;
    if missing <> '{}' then
        raise exception using
            errcode = 'insufficient_privilege',
            message = format('user %s may neither create nor use all the roles that keep tenants apart', current_user),
            hint = 'as an administrator of the server, run: ' || array_to_string(missing, '; ') || ';';
    end if;
end
$$;

-- A pooled session serves one organization after another, and a temporary table would stay for the next one: handlers may create
-- none. Every login that could create them before keeps that right, except workers in other languages. The
-- database itself is not in a dump.
do $$
declare
    login name;
begin
    if has_database_privilege('onceward_app', current_database(), 'temporary') then
        for login in
            select rolname from pg_roles where rolcanlogin and not rolsuper
               and has_database_privilege(oid, current_database(), 'temporary')
               and (pg_has_role(oid, 'onceward_engine', 'member')
                    or not (pg_has_role(oid, 'onceward_sql_worker', 'member') or pg_has_role(oid, 'onceward_organization_worker', 'member')
                            or pg_has_role(oid, 'onceward_producer', 'member')))
        loop
            execute format('grant temporary on database %I to %I', current_database(), login);
        end loop;
        execute format('revoke temporary on database %I from public', current_database());
    end if;
exception when insufficient_privilege then
    null;  -- not the owner of the database: `onceward verify` and `onceward doctor` report it
end
$$;
