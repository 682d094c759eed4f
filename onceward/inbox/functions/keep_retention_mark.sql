-- Sources with the same retention share a mark. A source that gets another retention (or the default, because it is deleted) takes the
-- mark of that retention back to its own: events between the two marks have bodies, which the new retention may not allow any more.
-- A new source has no old events.
create or replace function onceward.keep_retention_mark() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_before text := 'events:' || coalesce(case when tg_op <> 'INSERT' then old.retention_days::text end, 'default');
    v_after text := 'events:' || coalesce(case when tg_op <> 'DELETE' then new.retention_days::text end, 'default');
begin
    insert into onceward.prune_marks as m (name, through)
    values (v_after, coalesce((select b.through from onceward.prune_marks b where b.name = v_before), 0))
    on conflict (name) do update set through = excluded.through where m.through > excluded.through and tg_op <> 'INSERT';
    return null;
end
$$;

revoke all on function onceward.keep_retention_mark() from public;

create or replace trigger retention after insert or delete or update of retention_days on onceward.sources
    for each row execute function onceward.keep_retention_mark();
