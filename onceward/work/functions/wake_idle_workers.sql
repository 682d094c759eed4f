-- Notify the workers of a queue at the commit of this transaction, if one of them is idle. Busy workers look again anyway.
--
-- NOTIFY serialises the commits of a database, so it must be rare. An idle worker holds an exclusive lock on the queue (see
-- onceward/work/idle_flags.py). A transaction that gets the shared lock keeps it until its rows are visible; a worker that becomes
-- idle meanwhile does not get the exclusive lock and looks again.
-- PREPARE TRANSACTION refuses transactions with a NOTIFY: `set local onceward.notify = off` leaves the work to the next poll.
create or replace function onceward.wake_idle_workers(queue text) returns void language plpgsql as $$
begin
    if not pg_try_advisory_xact_lock_shared(1869505383, hashtext(queue))
       and coalesce(current_setting('onceward.notify', true), '') <> 'off' then
        perform pg_notify('onceward_work', queue);
    end if;
end
$$;
