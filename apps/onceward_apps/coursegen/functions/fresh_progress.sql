-- Return the progress of a course of which nothing is done: five pending steps.
create or replace function coursegen.fresh_progress() returns jsonb
    language sql immutable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'steps', (select jsonb_agg(jsonb_build_object(
            'status', 'pending', 'message', null, 'started_at', null, 'completed_at', null, 'error', null,
            'error_details', null, 'metadata', '{}'::jsonb)) from generate_series(1, 5)),
        'percentage', 0, 'current_step', 1)
$$;
revoke all on function coursegen.fresh_progress() from public;
grant execute on function coursegen.fresh_progress() to onceward_app, onceward_engine;
