-- Note the database's clock. It moves back when it is corrected, and at a failover to a server whose clock is behind. What was due
-- or nearly due would then wait for as long as the clock has moved: every package moves its own times back by as much, in its
-- function onceward.move_back_<package> (`Feature.move_back`). Returns how far the clock has moved back, or null.
create or replace function onceward.note_clock() returns interval language plpgsql as $$
declare
    v_now timestamptz := onceward.clock();
    v_seen timestamptz;
    v_back_since timestamptz;
    v_function regproc;
begin
    select clock into v_seen from onceward.server_timeline;
    if v_seen between v_now - interval '2 seconds' and v_now + interval '5 seconds' then
        return null;
    end if;
    -- Several rescuers note the clock: one of them moves the times.
    select clock, back_since into v_seen, v_back_since from onceward.server_timeline for update skip locked;
    if not found then
        return null;
    end if;
    v_now := onceward.clock();    -- after the lock: others may have noted a later time since
    if v_seen <= v_now + interval '5 seconds' then
        update onceward.server_timeline set clock = v_now, back_since = null;
        return null;
    end if;
    -- A transaction that began before the jump writes times of the old clock when it commits: wait for it, a minute at most.
    if coalesce(v_back_since > v_now - interval '1 minute', true) and exists (
        select from onceward.server_sessions() s where s.xact_start > clock_timestamp() + interval '5 seconds')
    then
        update onceward.server_timeline set back_since = v_now where back_since is null;
        return null;
    end if;
    update onceward.server_timeline set clock = v_now, back_since = null, moves = moves + 1;
    for v_function in
        select p.oid::regproc from pg_proc p
         where p.pronamespace = 'onceward'::regnamespace and p.proname like 'move\_back\_%' order by p.proname
    loop
        execute format('select %s($1, $2)', v_function) using v_now, v_seen;
    end loop;
    return v_seen - v_now;
end
$$;
