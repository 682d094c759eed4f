-- Pause the workflow until a time, or until one of its waiting steps is answered. False: the lease was lost.
-- p_moves tells whether times were moved since this run was loaded (onceward.note_clock): then p_until may be a time of the old clock,
-- and the workflow runs again at once and reads from its history how long to wait.
create or replace function onceward.park_workflow(
    p_id bigint, p_lease bigint, p_until timestamptz, p_waiting int[], p_moves int
) returns boolean language plpgsql as $$
begin
    update onceward.work
       set lease = null, claimed_at = null, slot = null, parent_slot = null, crashes = 0, attempts = 0,
           sort_at = case when (select moves from onceward.server_timeline) is distinct from p_moves then onceward.now()
                          else coalesce(p_until, 'infinity') end
     where id = p_id and lease = p_lease;
    if not found then
        return false;
    end if;
    -- Checked after the row is locked: an answer either came before and is visible here, or it waits for the lock.
    if exists (select from onceward.workflow_steps s
                where s.workflow_id = p_id and s.position = any(p_waiting) and s.state <> 'waiting')
    then
        update onceward.work set sort_at = onceward.now() where id = p_id;
    end if;
    return true;
end
$$;
