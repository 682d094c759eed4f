-- Refuse with OW101 to delete an account or to change what its entries depend on.
create or replace function onceward.ledger_refuse_account_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'an account keeps its code, currency, kind and bound for ever; only its name may change'
        using errcode = 'OW101';
end
$$;

create or replace trigger append_only before update of id, organization_id, code, currency, kind, bounded
    on onceward.ledger_accounts
    for each statement execute function onceward.ledger_refuse_account_change();

create or replace trigger never_deleted before delete or truncate on onceward.ledger_accounts
    for each statement execute function onceward.ledger_refuse_account_change();

revoke all on function onceward.ledger_refuse_account_change() from public;
