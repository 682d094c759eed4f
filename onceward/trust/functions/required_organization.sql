-- Return the organization that the transaction acts for, or raise OW004 if there is none.
create or replace function onceward.required_organization() returns uuid
    language plpgsql stable parallel safe as $$
begin
    if onceward.organization() is null then
        raise exception 'this transaction acts for no organization: set one before using capacity or the ledger'
            using errcode = 'OW004';
    end if;
    return onceward.organization();
end
$$;

revoke all on function onceward.required_organization() from public;
grant execute on function onceward.required_organization() to onceward_app, onceward_engine;
