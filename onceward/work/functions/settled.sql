-- Tell the table of the kind what became of its row: call onceward.settled_<kind> (`KindRoutines.settled`).
create or replace function onceward.settled(p_kind text, p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
begin
    if p_kind <> 'job' then
        execute format('select onceward.settled_%s($1, $2, $3, $4, $5)', p_kind)
            using p_id, p_outcome, p_number, p_result, p_error;
    end if;
end
$$;
