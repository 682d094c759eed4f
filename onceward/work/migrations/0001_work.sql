-- Work: what is left to do (hot, narrow), what it is about (bodies), and what was done (attempts).

create table onceward.jobs (
    id bigint primary key,
    organization_id uuid,
    task text not null,
    args jsonb not null,
    caused_by bigint,
    tags text[],
    created_at timestamptz not null default onceward.now()
);
comment on table onceward.jobs is 'Bodies of jobs, inserted once. Unfinished while a row of onceward.work has the same id.';
create index jobs_caused_by on onceward.jobs (caused_by) where caused_by is not null;
select onceward.protect('onceward.jobs');

create table onceward.work (
    id bigint primary key,
    organization_id uuid,
    kind text not null check (kind in ('event', 'job', 'message', 'delivery')),
    task text not null,
    queue text not null,
    sort_at timestamptz not null,          -- due time, less the head start that priority gives
    attempts smallint not null default 0,  -- attempts that ended in failure
    crashes smallint not null default 0,   -- workers that died with it: a suspect from 2 on, dead at 3
    max_attempts smallint,                 -- null: as its task says
    lease bigint,                          -- the fence: random, made by the claimer
    claimed_at timestamptz,                -- real time, with the lease
    lane text,                             -- null for most: pays nothing for what it does not use
    cap smallint,                          -- how many of the lane may run at once; null: any number
    slot smallint,                         -- which of them this one is
    ordered boolean,                       -- the lane runs in id order; a waiting head blocks it
    parent text,                           -- a second cap over several lanes
    parent_cap smallint,
    parent_slot smallint,
    unique_key text,
    bundle bigint,                         -- member of a bundle that something waits for
    cancel boolean,                        -- asked to stop while running
    dead_reason text,                      -- dead letter since dead_at
    dead_at timestamptz
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
comment on table onceward.work is 'Unfinished work of all kinds, dead letters included. The outcome deletes the row.';

create index work_ready on onceward.work (queue, sort_at)
    where lease is null and lane is null and dead_reason is null;
-- A row in a lane is in exactly one of these two. Ordered lanes go by id; in the others, what is due later must not be in
-- the way.
create index work_lane_ordered on onceward.work (queue, lane, id)
    where lane is not null and ordered and lease is null and dead_reason is null;
create index work_lane_due on onceward.work (queue, lane, sort_at, id)
    where lane is not null and ordered is not true and lease is null and dead_reason is null;
create unique index work_slot on onceward.work (queue, lane, slot) where slot is not null;
create unique index work_parent_slot on onceward.work (queue, parent, parent_slot) where parent_slot is not null;
create unique index work_unique on onceward.work (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), unique_key)
    where unique_key is not null and dead_reason is null;
create index work_dead on onceward.work (dead_at) where dead_reason is not null;
create index work_cancel on onceward.work (id) where cancel;
create index work_bundle on onceward.work (bundle) where bundle is not null;
select onceward.protect('onceward.work');

create table onceward.attempts (
    work_id bigint not null,
    organization_id uuid,
    number smallint not null,
    kind text not null,
    task text not null,
    outcome text not null check (outcome in
        ('success', 'retry', 'failed', 'dead_letter', 'cancelled', 'crashed', 'snoozed', 'discarded', 'unknown')),
    worker bigint,
    started_at timestamptz,
    finished_at timestamptz not null default clock_timestamp(),
    result jsonb,
    error jsonb                            -- type, message, stack, reason
);
comment on table onceward.attempts is 'Every finished attempt, appended once.';
create index attempts_work on onceward.attempts (work_id);
create index attempts_finished on onceward.attempts using brin (finished_at);
select onceward.protect('onceward.attempts');
revoke update, delete on onceward.attempts from onceward_app;

create table onceward.claims (
    lease bigint primary key,
    worker bigint not null,
    ids bigint[] not null,
    claimed_at timestamptz not null default clock_timestamp()
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on table onceward.claims is
    'One row per claim, so that a dead worker''s rows are found without an index that every claim of every row would pay for.';
create index claims_worker on onceward.claims (worker);
grant select, insert, update, delete on onceward.claims to onceward_engine;

create table onceward.workers (
    id bigint primary key,
    name text not null,                    -- host:pid
    version text not null,
    queues text[] not null,
    tasks text[] not null,
    forms text[] not null default '{}',    -- "task digest": what its version of each task accepts
    beat bigint not null default 0,        -- counted up by the worker; a rescuer compares it with itself only
    started_at timestamptz not null default clock_timestamp(),
    beat_at timestamptz not null default clock_timestamp(),   -- for people to read, never compared
    stopping boolean not null default false
) with (fillfactor = 50);
grant select, insert, update, delete on onceward.workers to onceward_engine;

create table onceward.queues (
    name text primary key,
    paused_at timestamptz,
    paused_by text
);
grant select, insert, update, delete on onceward.queues to onceward_engine;

create table onceward.lanes (
    queue text not null,
    lane text not null,
    paused_at timestamptz,
    cap smallint check (cap > 0),          -- instead of the cap of the rows
    weight smallint not null default 1 check (weight between 1 and 100),
    rate_per_s double precision check (rate_per_s > 0),
    next_at timestamptz,                   -- rate: when the next one may start
    open_until timestamptz,                -- breaker: nothing starts before
    failures int not null default 0,       -- breaker: in a row
    primary key (queue, lane)
);
comment on table onceward.lanes is 'Only lanes with settings of their own have a row here.';
grant select, insert, update, delete on onceward.lanes to onceward_engine;

create table onceward.unique_keys (
    organization_id uuid not null default '00000000-0000-0000-0000-000000000000',
    key text not null,
    work_id bigint not null,
    expires_at timestamptz,                -- null: for ever
    primary key (organization_id, key)
);
comment on table onceward.unique_keys is 'Unique keys that outlive the work that took them.';
alter table onceward.unique_keys enable row level security;
create policy own_rows on onceward.unique_keys for all to onceward_app
    using (organization_id = coalesce(onceward.organization(), '00000000-0000-0000-0000-000000000000'))
    with check (organization_id = coalesce(onceward.organization(), '00000000-0000-0000-0000-000000000000'));
create policy engine on onceward.unique_keys for all to onceward_engine using (true) with check (true);
grant select, insert, update, delete on onceward.unique_keys to onceward_engine, onceward_app;

create table onceward.bundles (
    id bigint primary key,
    organization_id uuid,
    remaining int not null,
    then_id bigint                         -- the job that is released when none remains
);
select onceward.protect('onceward.bundles');

create table onceward.checkpoints (
    work_id bigint primary key,
    organization_id uuid,
    cursor jsonb not null,
    saved_at timestamptz not null default clock_timestamp()
);
select onceward.protect('onceward.checkpoints');

create table onceward.prune_marks (
    name text primary key,
    through bigint not null default 0      -- ids up to here have been looked at
);
create table onceward.prune_later (
    id bigint primary key                  -- unfinished when the mark passed it
);
grant select, insert, update, delete on onceward.prune_marks, onceward.prune_later to onceward_engine;

-- Claiming by lane: order, exact concurrency, fairness, pause, rate and breaker in one mechanism.

create index work_suspect on onceward.work (queue, sort_at)
    where crashes > 1 and lease is null and dead_reason is null;
