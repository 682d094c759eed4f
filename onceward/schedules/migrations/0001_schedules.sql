-- Schedules: what is to run when, every run there was, and which items of a run are done.

create table onceward.schedules (
    name text primary key,
    task text not null,
    queue text not null,
    cron text,                              -- an expression in `tz`, or
    every_s double precision,               -- an interval, counted from the epoch so that all nodes agree
    tz text not null default 'UTC',
    missed text not null check (missed in ('once', 'skip', 'all')),
    window_s double precision not null,     -- missed = all: how far back
    most int not null,                      -- missed = all: how many
    overlap text not null check (overlap in ('skip', 'queue', 'allow')),
    jitter_s double precision not null default 0,
    decided_until timestamptz not null,     -- due times up to here have been decided on
    next_at timestamptz,                    -- the next one; null: there is none
    paused_at timestamptz,
    paused_by text,
    created_at timestamptz not null default onceward.now(),
    check ((cron is null) <> (every_s is null))
);
comment on table onceward.schedules is 'One row per schedule, written by whichever node knows it. Any node may act on it.';
grant select, insert, update, delete on onceward.schedules to onceward_engine;

create table onceward.runs (
    id bigint primary key,                  -- also the id of the job that does it
    schedule text not null,
    due_at timestamptz not null,
    origin text not null check (origin in ('clock', 'late', 'operator', 'backfill')),
    status text not null default 'pending' check (status in ('pending', 'running', 'success', 'failed', 'skipped')),
    reason text,                            -- why it was skipped or failed
    scope bigint not null,                  -- runs that share it share the marks of items that are done
    asked_by text,
    attempts smallint not null default 0,
    started_at timestamptz,
    finished_at timestamptz,
    duration_ms bigint,
    processed bigint not null default 0,
    succeeded bigint not null default 0,
    failed bigint not null default 0,
    skipped bigint not null default 0,
    result jsonb,
    error jsonb,
    has_marks boolean not null default true, -- false: pruning has removed the marks of items that were done
    created_at timestamptz not null default onceward.now(),
    unique (schedule, due_at)
);
comment on table onceward.runs is 'One row per due time, unique: however many nodes notice that it is due, one run exists.';
create index runs_recent on onceward.runs (schedule, id desc);
create index runs_unfinished on onceward.runs (schedule) where status in ('pending', 'running');
create index runs_finished on onceward.runs (finished_at) where finished_at is not null;
create index runs_marked on onceward.runs (finished_at) where status = 'success' and has_marks;
grant select, insert, update, delete on onceward.runs to onceward_engine;

create table onceward.run_items (
    scope bigint not null,
    step text not null,                     -- which `run.each` of the run
    key text not null,                      -- which item
    run_id bigint not null,
    lease bigint not null,                  -- of the attempt that did it
    outcome text not null check (outcome in ('success', 'failed', 'skipped')),
    error jsonb,
    at timestamptz not null default onceward.now(),
    primary key (scope, step, key)
);
comment on table onceward.run_items is
    'Written in the transaction of the item itself: what stands here as done is done, and is not done again.';
create index run_items_failed on onceward.run_items (run_id) where outcome = 'failed';
grant select, insert, update, delete on onceward.run_items to onceward_engine;

create function onceward.mark_item(
    p_scope bigint, p_step text, p_key text, p_run bigint, p_lease bigint, p_outcome text, p_error jsonb default null,
    out verdict text, out earlier text
) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- Mark an item, within its own transaction, which runs as the app role. The verdict:
-- 'marked'   it was not done before, and is this caller's now: a second caller waits for the end of the transaction;
-- 'done'     it is done already; `earlier` is the outcome if an earlier attempt of the same run did it, else null;
-- 'lost'     the caller no longer holds the run, so nothing was marked.
begin
    perform from onceward.work w where w.id = p_run and w.lease = p_lease;
    if not found then
        verdict := 'lost';
        return;
    end if;
    insert into onceward.run_items as i (scope, step, key, run_id, lease, outcome, error)
    values (p_scope, p_step, p_key, p_run, p_lease, p_outcome, p_error)
    on conflict (scope, step, key) do update
        set run_id = excluded.run_id, lease = excluded.lease, outcome = excluded.outcome, error = excluded.error, at = excluded.at
        where i.outcome = 'failed';
    if found then
        verdict := 'marked';
        return;
    end if;
    verdict := 'done';
    select i.outcome into earlier from onceward.run_items i
     where i.scope = p_scope and i.step = p_step and i.key = p_key and i.run_id = p_run and i.lease <> p_lease;
end
$$;
revoke all on function onceward.mark_item(bigint, text, text, bigint, bigint, text, jsonb) from public;
grant execute on function onceward.mark_item(bigint, text, text, bigint, bigint, text, jsonb) to onceward_app, onceward_engine;

create function onceward.mark_items(
    p_scope bigint, p_step text, p_keys text[], p_run bigint, p_lease bigint
) returns table (key text, earlier text)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- Mark many items as done, within the transaction that does them. Returns the items that are done already, with their
-- outcome if an earlier attempt of the same run did them. Raises no_data_found if the caller no longer holds the run.
declare
    v_marked text[];
begin
    perform from onceward.work w where w.id = p_run and w.lease = p_lease;
    if not found then
        raise no_data_found using message = 'the run is held by another worker';
    end if;
    with input as materialized (select k from unnest(p_keys) as i (k) order by k),  -- one order: no deadlocks
    marked as (
        insert into onceward.run_items as i (scope, step, key, run_id, lease, outcome)
        select p_scope, p_step, k, p_run, p_lease, 'success' from input
        on conflict on constraint run_items_pkey do update
            set run_id = excluded.run_id, lease = excluded.lease, outcome = excluded.outcome, error = null, at = excluded.at
            where i.outcome = 'failed'
        returning i.key
    )
    select array_agg(m.key) into v_marked from marked m;
    if cardinality(v_marked) = cardinality(p_keys) then
        return;
    end if;
    -- A statement of its own: it sees what another worker committed while the insert waited for it.
    return query
    select i.key, case when i.run_id = p_run and i.lease <> p_lease then i.outcome end
      from onceward.run_items i
     where i.scope = p_scope and i.step = p_step and i.key = any(p_keys) and i.key <> all(coalesce(v_marked, '{}'));
end
$$;
revoke all on function onceward.mark_items(bigint, text, text[], bigint, bigint) from public;
grant execute on function onceward.mark_items(bigint, text, text[], bigint, bigint) to onceward_app, onceward_engine;

create function onceward.correct_items(
    p_scope bigint, p_step text, p_run bigint, p_lease bigint, p_skipped text[], p_failed text[], p_errors text[]
) returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
-- Change the outcome of items that this attempt marked as done: what became of them is known after the work.
    update onceward.run_items i set outcome = 'skipped'
     where i.scope = p_scope and i.step = p_step and i.key = any(p_skipped) and i.run_id = p_run and i.lease = p_lease;
    update onceward.run_items i
       set outcome = 'failed', error = jsonb_build_object('type', 'Failed', 'message', f.message)
      from unnest(p_failed, p_errors) as f (key, message)
     where i.scope = p_scope and i.step = p_step and i.key = f.key and i.run_id = p_run and i.lease = p_lease;
$$;
revoke all on function onceward.correct_items(bigint, text, bigint, bigint, text[], text[], text[]) from public;
grant execute on function onceward.correct_items(bigint, text, bigint, bigint, text[], text[], text[])
    to onceward_app, onceward_engine;

create function onceward.holds_run(p_run bigint, p_lease bigint) returns boolean
    language sql security definer set search_path = pg_catalog, pg_temp as $$
-- Whether the run is held under this lease. It stays so until the end of the transaction: a rescuer waits for it.
    select exists (select from onceward.work w where w.id = p_run and w.lease = p_lease for share)
$$;
revoke all on function onceward.holds_run(bigint, bigint) from public;
grant execute on function onceward.holds_run(bigint, bigint) to onceward_app, onceward_engine;

create function onceward.write_run(
    p_schedule text, p_due timestamptz, p_origin text, p_delay_s double precision, p_scope bigint default null,
    p_asked_by text default null
) returns bigint language plpgsql as $$
-- Write a run and the job that does it, or only the reason why it is skipped. Null: this due time has its run already.
declare
    v onceward.schedules;
    v_id bigint := nextval('onceward.ids');
    v_busy boolean;
begin
    select * into strict v from onceward.schedules s where s.name = p_schedule;
    v_busy := v.overlap = 'skip' and p_origin = 'clock' and exists (
        select from onceward.runs r where r.schedule = p_schedule and r.status in ('pending', 'running'));
    insert into onceward.runs (id, schedule, due_at, origin, status, reason, scope, asked_by, finished_at)
    values (v_id, p_schedule, p_due, p_origin, case when v_busy then 'skipped' else 'pending' end,
            case when v_busy then 'overlap' end, coalesce(p_scope, v_id), p_asked_by,
            case when v_busy then onceward.now() end)
    on conflict (schedule, due_at) do nothing;
    if not found then
        return null;
    end if;
    if not v_busy then
        insert into onceward.jobs (id, task, args) values (v_id, v.task, '{}');
        insert into onceward.work (id, kind, task, queue, sort_at, lane, cap, ordered)
        values (v_id, 'job', v.task, v.queue, onceward.now() + make_interval(secs => p_delay_s),
                case when v.overlap <> 'allow' then 'schedule:' || p_schedule end,
                case when v.overlap <> 'allow' then 1 end,
                case when v.overlap = 'queue' then true end);
    end if;
    return v_id;
end
$$;
