-- Keep where the next claim of an external queue begins. A claim in a long transaction keeps others from writing it, not from claiming.
create or replace function onceward.note_external_turn(p_queue text, p_owner bigint, p_state jsonb) returns void language plpgsql as $$
begin
    if pg_try_advisory_xact_lock(hashtextextended('external turn ' || p_queue, p_owner)) then
        insert into onceward.external_turns as t (queue, owner, state) values (p_queue, p_owner, p_state)
        on conflict (queue, owner) do update set state = t.state || excluded.state;
    end if;
end
$$;
