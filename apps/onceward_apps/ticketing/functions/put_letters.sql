-- Return the states of a row of seats with these letters at these positions.
create or replace function ticketing.put_letters(p_states text, p_numbers int[], p_letters text[]) returns text
    language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    for n in 1 .. cardinality(p_numbers) loop
        p_states := overlay(p_states placing p_letters[n] from p_numbers[n] for 1);
    end loop;
    return p_states;
end
$$;
