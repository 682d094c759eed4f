-- Enqueue a job from any language or from psql, in the caller's transaction. Return its id, or the id of the job that
-- already has the unique key. It runs with the rights of its owner, so that onceward_producer needs none on the tables; it writes
-- for onceward.producing_for() only. `trace` is the W3C traceparent of the caller.
create or replace function onceward.enqueue(
    task text, args jsonb default '{}', queue text default 'default', run_at timestamptz default null,
    boost_s int default 0, unique_key text default null, unique_for text default 'unfinished',
    on_conflict text default 'skip', lane text default null, cap int default null, ordered boolean default false,
    max_attempts int default null, tags text[] default null, fair_key text default null, trace text default null
) returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_id bigint;
    -- A login of one organization could otherwise block the lanes of another.
    v_lane text := case when exists (select from onceward.sql_logins l where l.login = session_user)
                        then onceward.producing_for() || ':' || lane else lane end;
begin
    if task is null or task = '' then
        raise exception 'onceward.enqueue: task must be the name of a job' using errcode = '22023';
    end if;
    if args is null or jsonb_typeof(args) <> 'object' then
        raise exception 'onceward.enqueue: args must be a JSON object of keyword arguments, not %', coalesce(args::text, 'null')
            using errcode = '22023';
    end if;
    if boost_s not between 0 and 3600 then
        raise exception 'onceward.enqueue: boost_s must lie between 0 and 3600, not %', boost_s using errcode = '22023';
    end if;
    if on_conflict not in ('skip', 'replace', 'debounce') then
        raise exception 'onceward.enqueue: on_conflict must be skip, replace or debounce, not %', on_conflict
            using errcode = '22023';
    end if;
    if fair_key = '' or length(fair_key) > 500 then
        raise exception 'onceward.enqueue: fair_key must have 1 to 500 characters, not %', length(fair_key) using errcode = '22023';
    end if;
    if length(args::text) > 1048576 then
        raise exception 'onceward.enqueue: args of % take % bytes, more than 1 MiB: store them and pass a reference',
            task, length(args::text) using errcode = '22023';
    end if;
    select r.id into v_id from onceward.enqueue_one(
        task, args, coalesce((select 'external:' || e.task from onceward.external_tasks e where e.task = enqueue.task), queue),
        run_at, boost_s, unique_key, unique_for, on_conflict, v_lane,
        case when ordered then 1 else cap end, ordered, null, null, max_attempts, tags, null,
        onceward.producing_for(), onceward.cause(),
        case when trace is not null then jsonb_build_object('trace', left(trace, 600)) end, fair_key) r;
    if run_at is null or run_at <= onceward.now() then
        perform onceward.wake_idle_workers(queue);
    end if;
    return v_id;
end
$$;

revoke all on function onceward.enqueue(
    text, jsonb, text, timestamptz, int, text, text, text, text, int, boolean, int, text[], text, text) from public;
grant execute on function onceward.enqueue(
    text, jsonb, text, timestamptz, int, text, text, text, text, int, boolean, int, text[], text, text)
    to onceward_app, onceward_engine, onceward_producer;
