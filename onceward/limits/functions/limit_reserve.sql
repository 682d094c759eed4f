-- Reserve a slot under every key, or under none: then full_key names the key without room. A null limit means the limit in
-- onceward.limits.
-- The keys belong to the organization of the work. The app role can reserve only for work of its current organization.
create or replace function onceward.limit_reserve(
    p_work bigint, p_keys text[], p_at_most int[], out full_key text, out at_most int, out held int
) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_organization uuid;
    v_scope uuid;
begin
    select w.organization_id into v_organization from onceward.work w where w.id = p_work and w.dead_reason is null;
    if not found or (current_setting('role') in ('onceward_app', 'onceward_sql_worker')
                     and v_organization is distinct from onceward.organization()) then
        raise exception 'work % is not unfinished work of this organization: reserve in the transaction that enqueues it', p_work
            using errcode = '22023';
    end if;
    for i in 1 .. cardinality(p_keys) loop
        at_most := coalesce(p_at_most[i], (select l.at_most from onceward.limits l where l.name = p_keys[i]));
        if at_most is null then
            raise exception 'limit % is not known: give the number of slots, or set it in onceward.limits', p_keys[i]
                using errcode = '22023';
        end if;
        v_scope := onceward.limit_scope(p_keys[i], v_organization);
        if not onceward.limit_take(v_scope, p_keys[i], at_most, p_work) then
            full_key := p_keys[i];
            held := (select count(*) from onceward.limit_slots s
                      where s.organization_id = v_scope and s.key = p_keys[i]
                        and exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null));
            update onceward.limit_slots s set work_id = 0 where s.work_id = p_work;
            return;
        end if;
    end loop;
end
$$;

revoke all on function onceward.limit_reserve(bigint, text[], int[]) from public;
grant execute on function onceward.limit_reserve(bigint, text[], int[]) to onceward_app, onceward_engine;
