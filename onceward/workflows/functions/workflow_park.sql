-- Pause the workflow until a time, or until one of its waiting steps is answered. False: the lease was lost.
create or replace function onceward.workflow_park(p_id bigint, p_lease bigint, p_until timestamptz, p_waiting int[])
    returns boolean language plpgsql as $$
begin
    update onceward.work
       set lease = null, claimed_at = null, slot = null, parent_slot = null, crashes = 0, attempts = 0, sort_at = coalesce(p_until, 'infinity')
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
