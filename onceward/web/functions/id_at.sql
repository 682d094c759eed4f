-- Return approximately the first id of a moment. Ids grow with time, so a binary search finds it without an index on times.
-- Callers must allow for transactions that were open for a while. The function reveals only how fast ids grow.
create or replace function onceward.id_at(p_moment timestamptz) returns bigint
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_low bigint := 0;
    v_high bigint := coalesce(pg_sequence_last_value('onceward.ids'), 0) + 1;
    v_middle bigint;
    v_at timestamptz;
begin
    while v_high - v_low > 1 loop
        v_middle := v_low + (v_high - v_low) / 2;
        select found.at into v_at
          from (select * from (select j.id, j.created_at as at from onceward.jobs j where j.id >= v_middle order by j.id limit 1) a
                union all
                select * from (select e.seq, e.received_at from onceward.webhook_events e where e.seq >= v_middle order by e.seq limit 1) b
               ) found
         order by found.id limit 1;
        if not found or v_at >= p_moment then
            v_high := v_middle;
        else
            v_low := v_middle;
        end if;
    end loop;
    return v_high;
end
$$;

revoke all on function onceward.id_at(timestamptz) from public;
grant execute on function onceward.id_at(timestamptz) to onceward_engine, onceward_app;
