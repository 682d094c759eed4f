-- Return approximately the first id of a table's rows since a moment, null if it has none. Ids grow with time, so a binary search
-- over the primary key finds it without an index on times. Callers must allow for transactions that were open for a while.
-- No role may execute it: the functions that call it as its owner name the tables.
create or replace function onceward.first_id_since(p_table regclass, p_id name, p_at name, p_moment timestamptz) returns bigint
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    c_next constant text := format('select %I, %I from %s where %I >= $1 order by %I limit 1', p_id, p_at, p_table, p_id, p_id);
    v_low bigint := 0;
    v_high bigint := coalesce(pg_sequence_last_value('onceward.ids'), 0) + 1;
    v_middle bigint;
    v_at timestamptz;
    v_id bigint;
    v_first bigint;
begin
    while v_high - v_low > 1 loop
        v_middle := v_low + (v_high - v_low) / 2;
        execute c_next into v_id, v_at using v_middle;
        if v_at < p_moment then
            v_low := v_middle;
        else
            v_high := v_middle;
            v_first := coalesce(v_id, v_first);
        end if;
    end loop;
    return v_first;
end
$$;

revoke all on function onceward.first_id_since(regclass, name, name, timestamptz) from public;
