-- Make a dead letter due again under the same id: 'replayed', 'gone', or 'taken' if newer work has its unique key (then it
-- stays dead).
create or replace function onceward.replay(p_id bigint) returns text language plpgsql as $$
declare
    v record;
begin
    select * into v from onceward.work w where w.id = p_id and w.dead_reason is not null for update;
    if not found then
        return 'gone';
    end if;
    if v.unique_key is not null and exists (
        select from onceward.work w
         where coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000'::uuid)
               = coalesce(v.organization_id, '00000000-0000-0000-0000-000000000000'::uuid)
           and w.unique_key = v.unique_key and w.dead_reason is null)
    then
        return 'taken';
    end if;
    update onceward.work
       set dead_reason = null, dead_at = null, attempts = 0, crashes = 0, cancel = null, sort_at = onceward.now(),
           earlier = onceward.last_attempt(p_id)
     where id = p_id;
    perform onceward.settled(v.kind, p_id, 'retry', 0, null, null);
    return 'replayed';
end
$$;
