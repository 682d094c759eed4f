-- Return why a journal cannot be settled, voided or reversed, or null if it can.
create or replace function onceward.ledger_cannot_draw(p_kind text, p_source onceward.ledger_journals) returns text
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    ended text;
begin
    if p_kind = 'reversal' then
        return case p_source.kind
            when 'posted' then null
            when 'settlement' then null
            when 'pending' then format('journal %s is pending: void it, or reverse its settlement', p_source.id)
            else format('journal %s is a %s and cannot be reversed: post what is meant', p_source.id, p_source.kind) end;
    end if;
    if p_source.kind <> 'pending' then
        return format('journal %s is %s, not pending', p_source.id, p_source.kind);
    end if;
    select format('journal %s has ended already, by %s %s', p_source.id, kind, id) into ended
    from onceward.ledger_journals where about = p_source.id and kind in ('settlement', 'void');
    return ended;
end
$$;

revoke all on function onceward.ledger_cannot_draw(text, onceward.ledger_journals) from public;
