-- Take back the work of a dead worker. All of it counts a crash, because any of it may have been the cause: after two crashes work is
-- a suspect and runs alone (onceward/work/suspects.py). Only what the dead worker held alone, or named as the cause, is a dead letter.
-- One crash does not make work a suspect: otherwise the rows of many workers would have to run one after the other.
create or replace function onceward.rescue(p_worker bigint, p_beat bigint)
    returns table (id bigint, kind text, task text, organization_id uuid, crashes int, dead boolean)
    language plpgsql as $$
declare
    v_claim record;
    v_row record;
    v_alone boolean;
    v_dead boolean;
    v_counts boolean;
    v_attempt onceward.attempt;
    v_ended_by bigint[];
    v_message text := 'the worker that held the work stopped responding';
begin
    -- The worker may have sent a heartbeat since it was observed: then it is alive and keeps its work.
    perform from onceward.workers w where w.id = p_worker for update;
    if exists (select from onceward.workers w where w.id = p_worker and w.beat is distinct from p_beat) then
        return;
    end if;
    delete from onceward.workers w where w.id = p_worker returning w.ended_by into v_ended_by;
    if v_ended_by is not null then
        v_message := 'the handler blocked its worker, which ended itself';
    end if;

    -- A workflow runs together with other work once more before it runs alone: most of its steps did not cause the crash.
    select count(*) = 1 into v_alone
      from onceward.claims c
      join onceward.work w on w.id = any(c.ids) and w.lease = c.lease
     where c.worker = p_worker;

    for v_claim in delete from onceward.claims c where c.worker = p_worker returning c.lease, c.ids loop
        for v_row in
            select w.id, w.kind, w.task, w.attempts, w.earlier, w.crashes, w.organization_id, w.claimed_at
              from onceward.work w
             where w.id = any(v_claim.ids) and w.lease = v_claim.lease
             order by w.id for update
        loop
            v_counts := v_ended_by is null or v_row.id = any(v_ended_by);
            v_dead := v_counts and v_row.crashes > 1 and (v_alone or v_ended_by is not null);
            update onceward.work w
               set lease = null, claimed_at = null, slot = null, parent_slot = null,
                   crashes = w.crashes + case when v_counts then 1 else 0 end,
                   dead_reason = case when v_dead then 'worker_lost' end,
                   dead_at = case when v_dead then onceward.now() end
             where w.id = v_row.id;
            if v_counts then
                v_attempt := row(
                    v_row.id, v_row.organization_id, v_row.attempts + 1, v_row.kind, v_row.task,
                    case when v_dead then 'dead_letter' else 'crashed' end, p_worker, v_row.claimed_at,
                    clock_timestamp(), null,
                    jsonb_build_object('type', 'WorkerLost', 'message', v_message,
                                       'reason', 'worker_lost'), v_row.earlier
                )::onceward.attempt;
                perform onceward.record_attempts(array[v_attempt]);
                if v_row.kind <> 'job' then
                    perform onceward.settled(v_row.kind, v_row.id,
                        case when v_dead then 'dead_letter' else 'crashed' end, v_row.attempts + 1,
                        null, '{"type": "WorkerLost", "reason": "worker_lost"}');
                end if;
                perform onceward.enqueue_end_hooks(array[v_attempt])
                   from onceward.work w where w.id = v_row.id and w.dead_reason is not null;
            end if;
            id := v_row.id; kind := v_row.kind; task := v_row.task; organization_id := v_row.organization_id;
            crashes := v_row.crashes + case when v_counts then 1 else 0 end;
            dead := v_dead;
            return next;
        end loop;
    end loop;
end
$$;
