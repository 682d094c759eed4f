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
