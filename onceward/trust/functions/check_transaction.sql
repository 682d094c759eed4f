-- Check before a handler's success is recorded that its transaction is still the one in which it began. The settings of a
-- transaction end with it, so a missing cause means that the handler committed or rolled back. OW007 and OW008 prevent the commit.
create or replace function onceward.check_transaction(p_cause text, p_role text) returns void language plpgsql as $$
begin
    if current_setting('onceward.cause', true) is distinct from p_cause then
        raise exception 'the handler ended its own transaction' using errcode = 'OW007';
    end if;
    if current_user <> p_role then
        raise exception 'the handler changed the role of its transaction from % to %', p_role, current_user using errcode = 'OW008';
    end if;
end
$$;
