-- Schedules, their runs, and the finished items of a run.

create table onceward.schedules (
    name text primary key,
    task text not null,
    queue text not null,
    cron text,                              -- an expression in `tz`, or
    every_s double precision,               -- an interval, counted from the epoch, so that all nodes agree
    tz text not null default 'UTC',
    missed text not null check (missed in ('once', 'skip', 'all')),
    window_s double precision not null,     -- missed = all: how far back missed times are run
    most int not null,                      -- missed = all: how many missed times are run
    overlap text not null check (overlap in ('skip', 'queue', 'allow')),
    jitter_s double precision not null default 0,
    severity text not null default 'error', -- of the notice about a failed run
    decided_until timestamptz not null,     -- all due times up to this one have been decided
    next_at timestamptz,                    -- the next due time; null: none
    paused_at timestamptz,
    paused_by text,
    created_at timestamptz not null default onceward.now(),
    check ((cron is null) <> (every_s is null))
);
comment on table onceward.schedules is 'One row per schedule, written by the nodes that know it. Any node may start its runs.';
grant select, insert, update, delete on onceward.schedules to onceward_engine;

create table onceward.runs (
    id bigint primary key,                  -- also the id of its job
    schedule text not null,
    due_at timestamptz not null,
    origin text not null check (origin in ('clock', 'late', 'operator', 'backfill')),
    status text not null default 'pending' check (status in ('pending', 'running', 'success', 'failed', 'skipped')),
    reason text,                            -- why the run was skipped or failed
    scope bigint not null,                  -- runs with the same scope share their finished items
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
    has_marks boolean not null default true, -- false: pruning has removed the finished items
    created_at timestamptz not null default onceward.now(),
    unique (schedule, due_at)
);
comment on table onceward.runs is 'One row per due time. The row is unique, so one run exists even if many nodes see that it is due.';
create index runs_recent on onceward.runs (schedule, id desc);
create index runs_unfinished on onceward.runs (schedule) where status in ('pending', 'running');
create index runs_finished on onceward.runs (finished_at) where finished_at is not null;
create index runs_marked on onceward.runs (finished_at) where status = 'success' and has_marks;
grant select, insert, update, delete on onceward.runs to onceward_engine;

create table onceward.run_items (
    scope bigint not null,
    step text not null,                     -- the `run.each` of the run
    key text not null,                      -- the item
    run_id bigint not null,
    lease bigint not null,                  -- the lease of the attempt that finished it
    organization_id uuid,                   -- whose item it is; null: the platform's
    outcome text not null check (outcome in ('success', 'failed', 'skipped')),
    error jsonb,
    at timestamptz not null default onceward.now(),
    primary key (scope, step, key)
);
comment on table onceward.run_items is
    'Finished items, written in the transaction of the item itself. An item in this table is not done again.';
create index run_items_failed on onceward.run_items (run_id) where outcome = 'failed';
create index run_items_failed_key on onceward.run_items (organization_id, key) where outcome = 'failed';
select onceward.protect('onceward.run_items');
revoke insert, update, delete on onceward.run_items from onceward_app;

create table onceward.run_parts (
    run_id bigint not null,
    organization_id uuid not null,
    step text not null,                     -- the `run.each` of the run
    schedule text not null,
    started_at timestamptz not null default onceward.now(),
    updated_at timestamptz not null default onceward.now(),
    processed bigint not null,
    succeeded bigint not null,
    failed bigint not null,
    skipped bigint not null,
    primary key (run_id, organization_id, step)
);
comment on table onceward.run_parts is
    'The part of a run that concerns one organization: it may read these rows. Written about once a second, and at the end of a step.';
create index run_parts_recent on onceward.run_parts (organization_id, schedule, run_id desc);
select onceward.protect('onceward.run_parts');
revoke insert, update, delete on onceward.run_parts from onceward_app;
