-- Make waiting work due at once, whatever it waits for. Return false if it runs, has ended or is a dead letter.
create or replace function onceward.run_now(p_id bigint) returns boolean language plpgsql as $$
declare
    v_queue text;
begin
    update onceward.work w set sort_at = least(w.sort_at, onceward.now())
     where w.id = p_id and w.lease is null and w.dead_reason is null returning w.queue into v_queue;
    if v_queue is null then
        return false;
    end if;
    perform onceward.wake_idle_workers(v_queue);
    return true;
end
$$;
