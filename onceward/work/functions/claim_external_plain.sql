-- Claim due jobs of one external queue outside lanes, line after line: the next claim begins after the line that was served last.
-- A line gives up to a quarter of the room; what is left goes to those that have more. After 200 lines that have nothing due (they wait
-- for a later time) the oldest due jobs follow.
create or replace function onceward.claim_external_plain(
    p_queue text, p_most int, p_lease bigint, p_all boolean, p_organization uuid
) returns bigint[] language plpgsql
    -- One plan for a table of any size, as in onceward.claim_lanes.
    set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_ids bigint[] := '{}';
    v_here bigint[];
    v_owner constant bigint := case when p_all then -1 else onceward.owner_of(onceward.line_of(p_organization, null)) end;
    v_first constant bigint := case when p_all then -9223372036854775808 else v_owner end;
    v_last constant bigint := case when p_all then 9223372036854775807 else onceward.end_of_owner(v_owner) end;
    v_start bigint;
    v_at bigint;
    v_served bigint;
    v_wrapped boolean := false;
    v_pass int := 1;
    v_visited int := 0;
begin
    if p_most <= 0 then
        return v_ids;
    end if;
    v_start := coalesce((select (t.state ->> 'line')::bigint + 1 from onceward.external_turns t
                          where t.queue = p_queue and t.owner = v_owner), v_first);
    v_at := v_start;
    while cardinality(v_ids) < p_most and v_visited < 200 loop
        select w.line into v_at from onceward.work w
         where w.queue = p_queue and w.line between v_at and v_last and w.lease is null and w.lane is null and w.dead_reason is null
         order by w.line limit 1;
        if not found or (v_wrapped and v_at >= v_start) then
            exit when v_wrapped and (v_pass = 2 or cardinality(v_ids) = 0);
            v_pass := v_pass + v_wrapped::int;             -- everybody had a turn: what is left goes to those that have more
            v_at := case when v_wrapped then v_start else v_first end;
            v_wrapped := not v_wrapped;
            continue;
        end if;
        v_here := array(
            select w.id from onceward.work w
             where w.queue = p_queue and w.line = v_at and w.sort_at <= onceward.now() and w.lease is null and w.lane is null
               and w.dead_reason is null and (p_all or w.organization_id is not distinct from p_organization)
               and not w.id = any(v_ids)
             order by w.sort_at
             limit case when v_pass = 2 then p_most - cardinality(v_ids)
                        else least(p_most - cardinality(v_ids), greatest(1, p_most / 4)) end
               for update skip locked);
        v_served := case when cardinality(v_here) > 0 then v_at else v_served end;
        v_ids := v_ids || v_here;
        v_visited := v_visited + 1;
        v_at := v_at + 1;
    end loop;
    if p_all and v_visited >= 200 and cardinality(v_ids) < p_most then
        v_ids := v_ids || array(
            select w.id from onceward.work w
             where w.queue = p_queue and w.line <> 0 and w.sort_at <= onceward.now() and w.lease is null and w.lane is null
               and w.dead_reason is null and not w.id = any(v_ids)
             order by w.sort_at limit p_most - cardinality(v_ids) for update skip locked);
    end if;
    if v_served is not null then
        perform onceward.note_external_turn(p_queue, v_owner, jsonb_build_object('line', v_served));
    end if;
    update onceward.work w set lease = p_lease, claimed_at = clock_timestamp() where w.id = any(v_ids);
    return v_ids;
end
$$;
