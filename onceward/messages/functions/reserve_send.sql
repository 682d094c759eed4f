-- Reserve a moment at which all limits allow a send. Each scope advances by its own interval, so no two callers get the same
-- moment.
-- If the wait would exceed the patience of a scope, nothing is reserved and only the wait is returned.
create or replace function onceward.reserve_send(
    p_scopes text[], p_every_s double precision[], p_patience_s double precision[],
    out wait_s double precision, out reserved boolean
) language plpgsql as $$
declare
    v_now timestamptz;
    v_at timestamptz;
    v_patient boolean := true;
    v record;
begin
    insert into onceward.send_slots (scope, next_at)
    select s.scope, '-infinity' from unnest(p_scopes) as s (scope) order by s.scope
    on conflict do nothing;
    perform from onceward.send_slots where scope = any(p_scopes) order by scope for update;
    v_now := clock_timestamp();             -- after the locks: two callers must not read the same time
    v_at := v_now;
    for v in
        select s.next_at, l.patience_s
          from unnest(p_scopes, p_patience_s) as l (scope, patience_s) join onceward.send_slots s using (scope)
    loop
        v_at := greatest(v_at, v.next_at);
        v_patient := v_patient and (v.next_at <= v_now + make_interval(secs => v.patience_s));
    end loop;
    reserved := v_patient;
    wait_s := extract(epoch from v_at - v_now);
    if reserved then
        update onceward.send_slots s
           set next_at = v_at + make_interval(secs => l.every_s)
          from unnest(p_scopes, p_every_s) as l (scope, every_s)
         where s.scope = l.scope;
    end if;
end
$$;
