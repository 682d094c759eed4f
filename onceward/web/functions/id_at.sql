-- Return approximately the first id of a moment, of jobs and events. It reveals only how fast ids grow.
create or replace function onceward.id_at(p_moment timestamptz) returns bigint
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select coalesce(least(onceward.first_id_since('onceward.jobs', 'id', 'created_at', p_moment),
                          onceward.first_id_since('onceward.webhook_events', 'seq', 'received_at', p_moment)),
                    coalesce(pg_sequence_last_value('onceward.ids'), 0) + 1);
$$;

revoke all on function onceward.id_at(timestamptz) from public;
grant execute on function onceward.id_at(timestamptz) to onceward_engine, onceward_app;
