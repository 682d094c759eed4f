-- List a paused source in onceward.paused_sources, where claims look, in the transaction that pauses or resumes it.
create or replace function onceward.source_paused() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op <> 'DELETE' and new.paused_at is not null then
        insert into onceward.paused_sources (source) values (new.webhook_id) on conflict do nothing;
    else
        delete from onceward.paused_sources where source = old.webhook_id;
    end if;
    return null;
end
$$;

revoke all on function onceward.source_paused() from public;

create or replace trigger paused after update of paused_at or delete on onceward.sources
    for each row execute function onceward.source_paused();
create or replace trigger inserted_paused after insert on onceward.sources
    for each row when (new.paused_at is not null) execute function onceward.source_paused();
