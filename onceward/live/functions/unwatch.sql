-- Remove a table and its partitions from the feed: its triggers, their functions and its row in `watched`.
create or replace function onceward.unwatch(target regclass) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    operation text;
    member regclass;
begin
    for member in select target union select relid from pg_partition_tree(target) loop
        foreach operation in array array['insert', 'update', 'delete', 'truncate'] loop
            execute format('drop trigger if exists onceward_feed_%s on %s', operation, member);
            execute format('drop function if exists onceward.%I()', format('feed_%s_%s', member::oid, operation));
        end loop;
    end loop;
    delete from onceward.watched where relation = target;
end
$$;

revoke all on function onceward.unwatch(regclass) from public;
