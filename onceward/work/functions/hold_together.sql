-- Claim rows that the caller has locked, each with its slot, in one update, and return the claimed ids.
-- If another claimer was faster with a slot, the update fails. Then each row is claimed alone, and a row whose slot is taken
-- stays unclaimed; if its lane is ordered, also the rows that follow it.
-- The function waits only briefly for a slot that another claimer is taking: that claimer may be waiting for one of ours.
create or replace function onceward.hold_together(p_ids bigint[], p_slots smallint[], p_lease bigint) returns bigint[]
    language plpgsql set enable_hashjoin = off set enable_mergejoin = off set lock_timeout = '100ms' as $$
declare
    v_held bigint[] := '{}';
    v_refused boolean := false;
begin
    if cardinality(p_ids) = 0 then
        return p_ids;
    end if;
    begin
        update onceward.work w
           set lease = p_lease, claimed_at = clock_timestamp(), slot = t.slot
          from unnest(p_ids, p_slots) t (id, slot)
         where w.id = t.id;
        return p_ids;
    exception when unique_violation or lock_not_available then
        null;
    end;
    perform set_config('lock_timeout', '1ms', true);   -- until the end of this function: the other claimer wins
    for n in 1 .. cardinality(p_ids) loop
        -- In an ordered lane a row with a later slot follows the row that was refused.
        continue when v_refused and p_slots[n] > 1 and (select w.ordered from onceward.work w where w.id = p_ids[n]);
        begin
            update onceward.work w
               set lease = p_lease, claimed_at = clock_timestamp(), slot = p_slots[n]
             where w.id = p_ids[n];
            v_held := v_held || p_ids[n];
            v_refused := false;
        exception when unique_violation or lock_not_available then
            v_refused := true;
        end;
    end loop;
    return v_held;
end
$$;
