-- Claim locked rows one by one: at most one suspect, and each row with a slot of its parent if it has a parent. A row whose
-- parent has no free slot stays unclaimed.
create or replace function onceward.hold_in_lane(
    p_ids bigint[], p_slots smallint[], p_queue text, p_lease bigint, p_suspect boolean, out held bigint[], out suspect boolean
) language plpgsql set lock_timeout = '20ms' as $$
declare
    v_row record;
    v_parent_slot int;
begin
    held := '{}';
    suspect := false;
    for v_row in
        select w.id, w.parent, w.parent_cap, w.crashes
          from unnest(p_ids) with ordinality i (id, n) join onceward.work w on w.id = i.id
         order by i.n
    loop
        continue when v_row.crashes > 1 and (suspect or not p_suspect);
        v_parent_slot := null;
        if v_row.parent is not null then
            select s.n into v_parent_slot from generate_series(1, v_row.parent_cap) s(n)
             where not exists (
                 select from onceward.work p
                  where p.queue = p_queue and p.parent = v_row.parent and p.parent_slot = s.n)
             limit 1;
            continue when not found;
        end if;
        update onceward.work w
           set lease = p_lease, claimed_at = clock_timestamp(), slot = p_slots[cardinality(held) + 1],
               parent_slot = v_parent_slot
         where w.id = v_row.id;
        held := held || v_row.id;
        suspect := suspect or v_row.crashes > 1;
    end loop;
end
$$;
