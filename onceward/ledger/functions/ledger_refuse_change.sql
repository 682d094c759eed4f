-- Refuse with OW101 every change of journals and entries: the ledger is append-only.
create or replace function onceward.ledger_refuse_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '% is append-only: reverse the journal instead of changing it', tg_table_name using errcode = 'OW101';
end
$$;

create or replace trigger append_only before update or delete or truncate on onceward.ledger_journals
    for each statement execute function onceward.ledger_refuse_change();

create or replace trigger append_only before update or delete or truncate on onceward.ledger_entries
    for each statement execute function onceward.ledger_refuse_change();

revoke all on function onceward.ledger_refuse_change() from public;
