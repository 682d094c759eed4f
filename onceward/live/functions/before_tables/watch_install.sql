-- Create the triggers that write the changes of one table to the feed, and their functions.
-- Each table has functions of its own, because PostgreSQL keeps their plans; one function for all tables would plan every
-- statement.
-- After a change of this file, a migration must call watch() again for the existing tables.
create or replace function onceward.watch_install(target regclass, keys text[]) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    relation text := case when (select relispartition from pg_class where oid = target)
        then 'pg_partition_root(TG_RELID)::oid' else 'TG_RELID' end;
    operation text;
    name text;
    body text;
    referencing text;
begin
    foreach operation in array array['insert', 'update', 'delete', 'truncate'] loop
        name := format('feed_%s_%s', target::oid, operation);
        case operation
            when 'insert' then
                body := onceward.watch_statement(relation, keys, array['new_rows']);
                referencing := 'referencing new table as new_rows';
            when 'update' then
                body := onceward.watch_statement(relation, keys, array['old_rows', 'new_rows']);
                referencing := 'referencing old table as old_rows new table as new_rows';
            when 'delete' then
                body := onceward.watch_statement(relation, keys, array['old_rows']);
                referencing := 'referencing old table as old_rows';
            else
                body := format('insert into onceward.feed (relation) values (%s)', relation);
                referencing := '';
        end case;
        execute format(
            'create or replace function onceward.%I() returns trigger language plpgsql security definer
                set search_path = pg_catalog, pg_temp as $body$ begin %s; return null; end $body$', name, body);
        execute format('revoke all on function onceward.%I() from public', name);
        execute format(
            'create or replace trigger onceward_feed_%s after %1$s on %s %s for each statement
                execute function onceward.%I()', operation, target, referencing, name);
    end loop;
end
$$;

revoke all on function onceward.watch_install(regclass, text[]) from public;
