-- Claim due jobs of one external queue that are in lanes: caps, order, rates and pauses hold as for our own workers.
create or replace function onceward.claim_external_lanes(
    p_queue text, p_task text, p_most int, p_lease bigint, p_all boolean, p_organization uuid
) returns bigint[] language plpgsql as $$
declare
    v_ids bigint[] := '{}';
    v_strangers bigint[];
    v_row record;
    v_claim jsonb;
    v_owner constant bigint := case when p_all then -1 else onceward.owner_of(onceward.line_of(p_organization, null)) end;
    v_state jsonb := coalesce((select t.state from onceward.external_turns t where t.queue = p_queue and t.owner = v_owner), '{}');
    v_marks jsonb := nullif(v_state -> 'marks', 'null');
    v_missed jsonb := nullif(v_state -> 'missed', 'null');
    v_line bigint := coalesce((v_state #>> '{at,0}')::bigint, case when p_all then 0 else v_owner end);
    v_lane text := coalesce(v_state #>> '{at,1}', '');
begin
    for v_turn in 1..2 loop
        for v_row in
            select c.id, c.organization_id, c.claim
              from onceward.claim_lanes(
                  p_queue, array[p_task], p_most - cardinality(v_ids), p_lease, null, true, '{}', p_all, v_line, v_lane,
                  coalesce((v_state ->> 'left')::int, 0),
                  array(select (m ->> 0)::bigint from jsonb_array_elements(v_marks) with ordinality x (m, n) order by n),
                  array(select m ->> 1 from jsonb_array_elements(v_marks) with ordinality x (m, n) order by n),
                  array(select (m ->> 0)::bigint from jsonb_array_elements(v_missed) with ordinality x (m, n) order by n),
                  array(select m ->> 1 from jsonb_array_elements(v_missed) with ordinality x (m, n) order by n),
                  case when not p_all then v_owner end) c
        loop
            v_claim := coalesce(v_row.claim, v_claim);
            if v_row.id is not null then
                if p_all or v_row.organization_id is not distinct from p_organization then
                    v_ids := v_ids || v_row.id;
                else
                    v_strangers := v_strangers || v_row.id;       -- another organization whose line has the same hash
                end if;
            end if;
        end loop;
        -- The lanes of one organization have an end: the claim that reaches it goes on with the first lane.
        exit when p_all or cardinality(v_ids) >= p_most or (v_turn = 1 and v_line = v_owner and v_lane = '');
        v_line := v_owner;
        v_lane := '';
    end loop;
    if v_strangers is not null then
        update onceward.work w set lease = null, claimed_at = null, slot = null, parent_slot = null
         where w.id = any(v_strangers) and w.lease = p_lease;
    end if;
    if cardinality(v_ids) > 0 or v_claim -> 'missed' <> 'null' then
        perform onceward.note_external_turn(p_queue, v_owner, case
            when p_all then v_claim - 'visited' - 'resume_s' - 'plain'
            when cardinality(v_ids) >= p_most then jsonb_build_object('at', v_claim -> 'at')
            else jsonb_build_object('at', jsonb_build_array(v_owner, '')) end);
    end if;
    return v_ids;
end
$$;
