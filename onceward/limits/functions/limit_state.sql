-- Return a limit of the whole instance to everybody whom it refuses: its value, the slots in use, and why it changed last.
create or replace function onceward.limit_state(
    p_name text, out at_most int, out held int, out reason text, out changed_at timestamptz
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select l.at_most,
           (select count(*)::int from onceward.limit_slots s
             where s.organization_id = '00000000-0000-0000-0000-000000000000' and s.key = l.name
               and exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null)),
           l.reason, nullif(l.changed_at, '-infinity')
      from onceward.limits l where l.name = p_name
$$;

revoke all on function onceward.limit_state(text) from public;
grant execute on function onceward.limit_state(text) to onceward_app, onceward_engine;
