-- Unfinished work (narrow rows, often updated), the bodies of jobs, and the finished attempts.

create table onceward.jobs (
    id bigint primary key,
    organization_id uuid,
    task text not null,
    args jsonb not null,
    caused_by bigint,
    tags text[],
    context jsonb,                         -- request id, user and tier of the request that caused it, if there is one
    created_at timestamptz not null default onceward.now()
);
comment on table onceward.jobs is 'Bodies of jobs, inserted once. A job is unfinished while a row of onceward.work has the same id.';
create index jobs_caused_by on onceward.jobs (caused_by) where caused_by is not null;
-- Lists of one organization. Jobs without one are not in it.
create index jobs_organization on onceward.jobs (organization_id, id) where organization_id is not null;
select onceward.protect('onceward.jobs');

create table onceward.work (
    id bigint primary key,
    line bigint not null default 0,        -- onceward.line_of: whose turn it is. Not generated: that would double the cost of a claim
    organization_id uuid,
    kind text not null check (kind in ('event', 'job', 'message', 'delivery')),
    task text not null,
    queue text not null,
    sort_at timestamptz not null,          -- due time minus the head start of the priority
    attempts smallint not null default 0,  -- attempts that ended in failure
    earlier smallint not null default 0,   -- the number of its last attempt before it was replayed or sent again
    crashes smallint not null default 0,   -- workers that died while they held it: after 2 it runs alone, and the next makes a dead letter
    max_attempts smallint,                 -- null: the limit of its task
    lease bigint,                          -- random number of the claim; every write of an outcome is fenced by it
    claimed_at timestamptz,                -- real time of the claim
    lane text collate "C",                 -- null for most rows, which then need no lane index; claims skip lanes by their prefix
    cap smallint,                          -- how many rows of the lane may run at once; null: no limit
    slot smallint,                         -- the slot of this row, if the lane has a cap
    ordered boolean,                       -- the lane runs in the order of ids; a waiting first row blocks it
    parent text,                           -- a second cap over several lanes
    parent_cap smallint,
    parent_slot smallint,
    unique_key text,
    bundle bigint,                         -- the bundle that this row is a member of
    cancel boolean,                        -- a request to stop the running work
    replaced_under bigint,                 -- the lease of the attempt that ran when the job got new arguments: it runs again
    dead_reason text,                      -- dead letter since dead_at
    dead_at timestamptz,
    source uuid                            -- the source of an event: it can be paused
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
comment on table onceward.work is 'Unfinished work of all kinds, including dead letters. The outcome deletes the row.';

-- Claims go through the lines in turn while more is due than they take, so that nobody's backlog delays others; otherwise by time.
-- Work of no organization is in the first index only: an installation without organizations pays for one.
create index work_ready on onceward.work (queue, line, sort_at)
    where lease is null and lane is null and dead_reason is null;
create index work_due on onceward.work (queue, sort_at)
    where line <> 0 and lease is null and lane is null and dead_reason is null;
-- A row in a lane is in exactly one of the next two indexes. Ordered lanes run in the order of ids; in other lanes, rows that are
-- due later must not delay rows that are due now.
create index work_lane_ordered on onceward.work (queue, lane, id)
    where lane is not null and ordered and lease is null and dead_reason is null;
create index work_lane_due on onceward.work (queue, lane, sort_at, id)
    where lane is not null and ordered is not true and lease is null and dead_reason is null;
-- Claims of lanes: owners take turns, each with its lanes (onceward.claim_lanes).
create index work_lane_line on onceward.work (queue, line, lane, sort_at, id)
    where lane is not null and lease is null and dead_reason is null;
create unique index work_slot on onceward.work (queue, lane, slot) where slot is not null;
create unique index work_parent_slot on onceward.work (queue, parent, parent_slot) where parent_slot is not null;
create unique index work_unique on onceward.work (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), unique_key)
    where unique_key is not null and dead_reason is null;
create index work_dead on onceward.work (dead_at) where dead_reason is not null;
create index work_dead_id on onceward.work (id) where dead_reason is not null;  -- lists of dead letters, page by page
-- The same two of one organization.
create index work_dead_of on onceward.work (organization_id, id) where dead_reason is not null and organization_id is not null;
create index work_dead_of_at on onceward.work (organization_id, dead_at)
    where dead_reason is not null and organization_id is not null;
create index work_retrying on onceward.work (id) where attempts > 0 and lease is null and dead_reason is null;
create index work_retrying_of on onceward.work (organization_id, id)
    where attempts > 0 and lease is null and dead_reason is null and organization_id is not null;
create index work_suspect on onceward.work (queue, sort_at)
    where crashes > 1 and lease is null and dead_reason is null;
create index work_cancel on onceward.work (id) where cancel;
create index work_bundle on onceward.work (bundle) where bundle is not null;
select onceward.protect('onceward.work');

-- A domain, because PostgreSQL reads the text of a table's check again in every statement that inserts.
create domain onceward.outcome as text check (value in
    ('success', 'retry', 'failed', 'dead_letter', 'cancelled', 'crashed', 'snoozed', 'discarded', 'unknown'));
create table onceward.attempts (
    work_id bigint not null,
    organization_id uuid,
    number smallint not null,
    kind text not null,
    task text not null,
    outcome onceward.outcome not null,
    worker bigint,
    started_at timestamptz,
    finished_at timestamptz not null default clock_timestamp(),
    result jsonb,
    error jsonb,                           -- type, message, stack, reason; group: why the group in which it had run was rolled back
    shared smallint                        -- how many pieces of work shared its commit; null: it had its own
);
comment on table onceward.attempts is
    'Every finished attempt. Rows are only appended, and changed only by the transaction that appends them.';
create index attempts_work on onceward.attempts (work_id);
create index attempts_finished on onceward.attempts using brin (finished_at);
-- What SQL passes to record_attempts. Not the row type of the table: then a new column of the table would break the
-- statements of code that is still running.
create type onceward.attempt as (
    work_id bigint, organization_id uuid, number smallint, kind text, task text, outcome text, worker bigint,
    started_at timestamptz, finished_at timestamptz, result jsonb, error jsonb,
    earlier smallint                       -- attempts before a replay: the limit counts from zero again, the numbers continue
);
select onceward.protect('onceward.attempts');
revoke update, delete on onceward.attempts from onceward_app;

create table onceward.end_hooks (
    task text primary key,
    queue text not null                    -- the queue of the job `<task>#on_end`
);
comment on table onceward.end_hooks is
    'Tasks whose end an app wants to know. Workers write it when they start; SQL that ends work reads it.';
grant select on onceward.end_hooks to onceward_app;
grant select, insert, update, delete on onceward.end_hooks to onceward_engine;

create table onceward.external_tasks (
    task text primary key,
    max_attempts smallint not null,
    waits_s double precision[] not null,   -- between attempts; the last one is repeated
    jitter double precision not null,      -- a wait is longer or shorter by up to this part of it
    lease_s double precision not null,     -- how long a claim lasts that names no time
    critical boolean not null
);
comment on table onceward.external_tasks is
    'Jobs that programs in other languages run. Workers of the app that declares them write the rows when they start.';
grant select, insert, update, delete on onceward.external_tasks to onceward_engine;

create table onceward.external_claims (
    work_id bigint primary key,
    lease bigint not null,
    expires_at timestamptz not null,       -- real time: the program has no heartbeat but this one
    worker text                            -- what the program calls itself
) with (fillfactor = 50);
comment on table onceward.external_claims is 'Jobs that programs in other languages hold.';
create index external_claims_expire on onceward.external_claims (expires_at);
grant select, insert, update, delete on onceward.external_claims to onceward_engine;

create table onceward.external_turns (
    queue text not null,
    owner bigint not null,                 -- onceward.owner_of the line of a program that serves one organization; -1: all
    state jsonb not null,                  -- where the next claim of lanes begins, as onceward.claim_lanes returned it
    primary key (queue, owner)
);
grant select, insert, update, delete on onceward.external_turns to onceward_engine;

create table onceward.claims (
    lease bigint primary key,
    worker bigint not null,
    ids bigint[] not null,
    claimed_at timestamptz not null default clock_timestamp()
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on table onceward.claims is
    'One row per claim. It finds the work of a dead worker without an index on onceward.work, which every claim would have to update.';
create index claims_worker on onceward.claims (worker);
grant select, insert, update, delete on onceward.claims to onceward_engine;

create table onceward.workers (
    id bigint primary key,
    name text not null,                    -- host:pid
    version text not null,
    queues text[] not null,
    tasks text[] not null,
    forms text[] not null default '{}',    -- "task digest": the arguments that its version of each task accepts
    apps text[] not null default '{}',
    beat bigint not null default 0,        -- increased by the worker; a rescuer compares it only with earlier values
    started_at timestamptz not null default clock_timestamp(),
    beat_at timestamptz not null default clock_timestamp(),   -- shown to people, never compared
    overdue bigint[] not null default '{}', -- work whose handlers exceed their timeout and cannot be stopped
    ended_by bigint[]                      -- the worker ended itself because of this work: other work of it counts no crash
) with (fillfactor = 50);
grant select, insert, update, delete on onceward.workers to onceward_engine;
grant select (overdue) on onceward.workers to onceward_app;  -- the state of a job says that it is overdue

create table onceward.apps (
    name text primary key,
    seen_at timestamptz not null default onceward.now()
);
comment on table onceward.apps is
    'Apps that workers have run. While one of them is away, nobody can say that a type of event has no handler.';
grant select, insert, update, delete on onceward.apps to onceward_engine;

create table onceward.unserved (
    queue text not null,
    task text not null,
    reason text not null check (reason in ('no_handler', 'no_queue', 'no_app', 'no_version')),
    kind text not null,
    since timestamptz not null default onceward.now(),
    seen_at timestamptz not null default onceward.now(),
    waiting int not null,                  -- how many rows the last look found: there may be more
    primary key (queue, task, reason)
);
comment on table onceward.unserved is
    'Due work that no live worker runs, by queue and task. The row begins when the work is found and goes when it is run again.';
grant select, insert, update, delete on onceward.unserved to onceward_engine;

create table onceward.server_timeline (
    one boolean primary key default true check (one),
    timeline int not null,                 -- PostgreSQL begins a new timeline when a standby is promoted
    since timestamptz not null,            -- when a worker first saw it
    clock timestamptz not null default '-infinity',  -- the server's clock when a worker last noted it
    back_since timestamptz,                -- the clock has moved back, and transactions that began before are still open
    moves int not null default 0           -- how often times were moved because the clock had moved back
);
comment on table onceward.server_timeline is
    'The timeline and the clock of the server that workers saw last. They differ from the server''s own after a failover.';
grant select, insert, update on onceward.server_timeline to onceward_engine;

create table onceward.queues (
    name text primary key,
    paused_at timestamptz,
    paused_by text
);
grant select, insert, update, delete on onceward.queues to onceward_engine;

create table onceward.lanes (
    queue text not null,
    lane text collate "C" not null,
    paused_at timestamptz,
    cap smallint check (cap > 0),          -- replaces the cap of the rows
    weight smallint not null default 1 check (weight between 1 and 100),
    rate_per_s double precision check (rate_per_s > 0),
    next_at timestamptz,                   -- rate: when the next row may start
    open_until timestamptz,                -- breaker: no row starts before this time
    failures int not null default 0,       -- breaker: consecutive failures
    primary key (queue, lane)
);
comment on table onceward.lanes is 'Lanes with settings of their own. Other lanes have no row.';
grant select, insert, update, delete on onceward.lanes to onceward_engine;

create table onceward.paused_sources (
    source uuid primary key
);
comment on table onceward.paused_sources is 'Claims leave work of these sources alone. The package that owns the sources keeps the list.';
grant select, insert, update, delete on onceward.paused_sources to onceward_engine;
grant select on onceward.paused_sources to onceward_app;  -- ids without names; the overview counts what waits for other reasons

create table onceward.unique_keys (
    organization_id uuid not null default '00000000-0000-0000-0000-000000000000',
    key text not null,
    work_id bigint not null,
    expires_at timestamptz,                -- null: never
    primary key (organization_id, key)
);
create index unique_keys_expired on onceward.unique_keys (expires_at) where expires_at is not null;
comment on table onceward.unique_keys is 'Unique keys that stay reserved after their work has finished.';
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
    then_id bigint                         -- the job that becomes due when no member remains
);
create unique index bundles_then on onceward.bundles (then_id);
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
    through bigint not null default 0      -- all ids up to this one have been examined
);
create table onceward.prune_later (
    name text not null,                    -- the mark that passed the row
    id bigint not null,                    -- the row had to stay when the mark passed it
    due_at timestamptz not null,           -- when it is examined again
    primary key (name, id)
);
create index prune_later_due on onceward.prune_later (name, due_at);
grant select, insert, update, delete on onceward.prune_marks, onceward.prune_later to onceward_engine;

create table onceward.usage (
    hour timestamptz not null,
    organization_id uuid,
    handled bigint not null,               -- attempts that ended
    work_s double precision not null,      -- time of handlers
    connections_s double precision not null -- time for which requests and live queries had a database connection
);
comment on table onceward.usage is
    'How much each organization used in an hour. Every process adds the 200 that used most, several times a minute.';
create unique index usage_hour on onceward.usage (hour, (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'::uuid)));
select onceward.protect('onceward.usage');
revoke insert, update, delete on onceward.usage from onceward_app;

-- A vacuum is due after 2 % of the rows have changed, not after the default 20 %: of 100 million rows that would be 20 million,
-- and the indexes would grow meanwhile.
alter table onceward.jobs set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
alter table onceward.attempts set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
