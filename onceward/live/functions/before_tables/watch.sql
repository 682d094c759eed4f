-- Let live queries depend on a table: its changes go to the feed, with the values of the key columns.
-- Further calls add keys. Call it again after adding a partition.
create or replace function onceward.watch(target regclass, keys text[]) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    kind "char" := (select relkind from pg_class where oid = target);
    wanted text[];
    partition regclass;
begin
    if kind not in ('r', 'p') then
        raise exception '% is not a table: watch the tables that it reads', target using errcode = 'wrong_object_type';
    end if;
    if pg_partition_root(target) <> target then
        raise exception '% is a partition: watch %', target, pg_partition_root(target)
            using errcode = 'wrong_object_type';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('onceward.watch', target::oid::bigint));
    wanted := array(
        select distinct each from unnest(keys || (select w.keys from onceward.watched w where w.relation = target)) each
        where each is not null order by each);
    insert into onceward.watched (relation, keys, types)
    values (target, wanted, array(select onceward.watch_key_type(target, each) from unnest(wanted) each))
    on conflict (relation) do update set keys = excluded.keys, types = excluded.types;
    perform onceward.watch_install(target, wanted);
    for partition in select relid from pg_partition_tree(target) where relid <> target loop
        perform onceward.watch_install(partition, wanted);
    end loop;
end
$$;

create or replace function onceward.watch(target regclass, key text default null) returns void
    language sql set search_path = pg_catalog, pg_temp
    as $$select onceward.watch(target, case when key is null then '{}'::text[] else array[key] end)$$;

comment on function onceward.watch(regclass, text) is
    'Let live queries depend on a table: its changes go to the feed, with the values of the key columns. '
     'Further calls add keys. Call it again after adding a partition.';

revoke all on function onceward.watch(regclass, text[]) from public;
revoke all on function onceward.watch(regclass, text) from public;
