-- Record a step as the last statement of its transaction: the record and the effects commit together. A lost lease raises
-- OW001; a step that the run relies on and the history lacks raises OW006.
create or replace function onceward.workflow_record_or_fail(
    p_id bigint, p_lease bigint, p_position int, p_kind text, p_key text, p_name text, p_state text, p_attempts int,
    p_result json, p_ref bigint, p_started timestamptz, p_required int[], p_finished boolean[]
) returns void language plpgsql as $$
begin
    if onceward.workflow_lacks(p_id, p_required, p_finished) then
        raise exception 'the history of workflow % lacks a step that this run had recorded', p_id using errcode = 'OW006';
    end if;
    insert into onceward.workflow_steps as s
        (workflow_id, position, organization_id, kind, key, name, state, attempts, result, ref, due_at, started_at, finished_at)
    select p_id, p_position, w.organization_id, p_kind, p_key, p_name, p_state, p_attempts, p_result, p_ref,
           null, p_started, case when p_state <> 'waiting' then clock_timestamp() end
      from (select h.organization_id from onceward.work h where h.id = p_id and h.lease = p_lease for share) w
    on conflict (workflow_id, position) do update
        set state = excluded.state, attempts = excluded.attempts, result = excluded.result, error = null,
            due_at = excluded.due_at, finished_at = excluded.finished_at
        where s.state in ('retry', 'registered') or (s.kind = 'compensation' and s.state = 'failed');
    if not found then
        raise exception 'workflow % is no longer held under this lease', p_id using errcode = 'OW001';
    end if;
end
$$;
