-- Let the next handler continue the transaction of the one before it: check what check_transaction checks, and set cause and organization.
-- One procedure and one round trip, because every handler that shares a commit pays for it.
create or replace procedure onceward.join_transaction(p_cause text, p_role text, p_next text, p_organization text)
    language plpgsql as $$
declare
    v_set text;
begin
    if current_setting('onceward.cause', true) is distinct from p_cause then
        if coalesce(current_setting('onceward.cause', true), '') = '' then
            raise exception 'the handler ended its own transaction' using errcode = 'OW007';
        end if;
        raise exception 'the handler went back to a savepoint of another handler' using errcode = 'OW008';
    end if;
    if current_user <> p_role then
        raise exception 'the handler changed the role of its transaction from % to %', p_role, current_user using errcode = 'OW008';
    end if;
    v_set := set_config('onceward.cause', p_next, true);
    v_set := set_config('onceward.organization', p_organization, true);
end
$$;
