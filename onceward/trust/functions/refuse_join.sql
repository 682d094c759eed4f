-- Say why a handler cannot continue the transaction of the handler before it, whose cause is p_cause. It always raises.
create or replace function onceward.refuse_join(p_cause text) returns boolean language plpgsql as $$
begin
    if coalesce(current_setting('onceward.cause', true), '') = '' then
        raise exception 'the handler ended its own transaction' using errcode = 'OW007';
    end if;
    if current_setting('onceward.cause', true) <> p_cause then
        raise exception 'the handler went back to a savepoint of another handler' using errcode = 'OW008';
    end if;
    raise exception 'the handler changed the role of its transaction to %', current_user using errcode = 'OW008';
end
$$;
