-- Return the reason of a dead letter as one of a closed set, so that it can be a metric label. The full text stays in the
-- error.
create or replace function onceward.dead_reason_of(p_error text) returns text
    language sql immutable set search_path = pg_catalog, pg_temp as $$
select case when split_part(p_error, ':', 1) in ('max_attempts_exceeded', 'payload_invalid', 'timeout', 'worker_lost', 'no_handler')
            then split_part(p_error, ':', 1) else 'permanent' end
$$;
