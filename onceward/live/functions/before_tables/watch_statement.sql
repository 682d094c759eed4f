-- Return the statement that a trigger runs over its transition tables. For more than 500 different values it reports "every
-- key".
create or replace function onceward.watch_statement(relation text, keys text[], sources text[]) returns text
    language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    source text;
    key text;
    parts text[] := '{}';
begin
    foreach source in array sources loop
        if cardinality(keys) = 0 then
            parts := parts || format('(select null::text as key, null::text as value from %s limit 1)', source);
        end if;
        foreach key in array keys loop
            parts := parts || format('select %L::text as key, %I::text as value from %s', key, key, source);
        end loop;
    end loop;
    return format(
        'with touched as materialized (%s), found as materialized (select count(*) as n from touched)
         insert into onceward.feed (relation, key, value)
         select %s, key, value from touched where (select n from found) <= 500
         union all select %2$s, null, null from found where n > 500',
        array_to_string(parts, ' union '), relation);
end
$$;

revoke all on function onceward.watch_statement(text, text[], text[]) from public;
