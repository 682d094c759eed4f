-- Check that an entry of a settlement or reversal mirrors its original, and count the amount that is drawn from it.
create or replace function onceward.ledger_draw_on() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    source onceward.ledger_entries;
    how text;
begin
    select e.* into source
    from onceward.ledger_journals j
    join onceward.ledger_entries e on e.journal_id = j.about and e.id = new.origin
    where j.id = new.journal_id and j.organization_id = new.organization_id;
    select kind into how from onceward.ledger_journals where id = new.journal_id;
    if source.id is null or source.currency <> new.currency or new.pending
       or (how = 'settlement' and (source.debit_id, source.credit_id, source.pending)
                                   is distinct from (new.debit_id, new.credit_id, true))
       or (how = 'reversal' and (source.debit_id, source.credit_id, source.pending)
                                 is distinct from (new.credit_id, new.debit_id, false))
       or how not in ('settlement', 'reversal') then
        raise exception 'entry % of journal % does not mirror entry %', new.id, new.journal_id, new.origin
            using errcode = 'OW102';
    end if;
    insert into onceward.ledger_drawn as d (entry_id, organization_id, amount, drawn)
    values (source.id, source.organization_id, source.amount, new.amount)
    on conflict (entry_id) do update set drawn = d.drawn + excluded.drawn;
    return null;
end
$$;

create or replace trigger drawn_on after insert on onceward.ledger_entries
    for each row when (new.origin is not null) execute function onceward.ledger_draw_on();

revoke all on function onceward.ledger_draw_on() from public;
