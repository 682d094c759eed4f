-- Take one slot for this work, or return false. Never wait for another taker: a slot that somebody is taking counts as
-- taken.
create or replace function onceward.limit_take(p_scope uuid, p_key text, p_at_most int, p_work bigint) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v record;
begin
    if exists (select from onceward.limit_slots s where s.organization_id = p_scope and s.key = p_key and s.work_id = p_work) then
        return true;
    end if;
    if (select count(*) from onceward.limit_slots s
         where s.organization_id = p_scope and s.key = p_key and s.slot <= p_at_most) < p_at_most then
        insert into onceward.limit_slots (organization_id, key, slot, work_id)
        select p_scope, p_key, n, 0 from generate_series(1, p_at_most) n
        on conflict (organization_id, key, slot) do nothing;
    end if;
    for v in
        with seen as (
            select s.slot, s.work_id,
                   exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null) as held
              from onceward.limit_slots s where s.organization_id = p_scope and s.key = p_key
        )
        -- A slot is free only if it and all held slots above it fit: after a limit was lowered, no work is admitted until
        -- enough work has ended, whichever slots it held.
        select c.slot, c.work_id from seen c
         where not c.held and c.slot + (select count(*) from seen a where a.held and a.slot > c.slot) <= p_at_most
         order by random()
    loop
        -- Take the slot only from the owner that has ended. An owner that took it in between is not replaced.
        perform from onceward.limit_slots s
          where s.organization_id = p_scope and s.key = p_key and s.slot = v.slot and s.work_id = v.work_id
            for update skip locked;
        if found then
            update onceward.limit_slots s set work_id = p_work, taken_at = clock_timestamp()
             where s.organization_id = p_scope and s.key = p_key and s.slot = v.slot;
            return true;
        end if;
    end loop;
    return false;
end
$$;

revoke all on function onceward.limit_take(uuid, text, int, bigint) from public;
