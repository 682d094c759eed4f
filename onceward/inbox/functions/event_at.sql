-- Return approximately the number of the first event of a moment. It reveals only how fast the numbers grow.
create or replace function onceward.event_at(p_moment timestamptz) returns bigint
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select coalesce(onceward.first_id_since('onceward.webhook_events', 'seq', 'received_at', p_moment),
                    coalesce(pg_sequence_last_value('onceward.ids'), 0) + 1);
$$;

revoke all on function onceward.event_at(timestamptz) from public;
grant execute on function onceward.event_at(timestamptz) to onceward_engine, onceward_app;
