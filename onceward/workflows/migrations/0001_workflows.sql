-- Workflows, their steps in the order in which the code calls them, and unread signals.

alter table onceward.work drop constraint work_kind_check;
alter table onceward.work add constraint work_kind_check
    check (kind in ('event', 'job', 'message', 'delivery', 'workflow'));

create table onceward.workflows (
    id bigint primary key,                 -- also the id of its row in onceward.work while it is unfinished
    organization_id uuid,
    name text not null,
    key text,                              -- at most one workflow of this name ever has this key
    version text not null,                 -- the version of the code that started it
    args json not null,
    state text not null default 'running' check (state in
        ('running', 'compensating', 'success', 'failed', 'cancelled', 'continued', 'dead_letter')),
    ending text check (ending in ('failed', 'cancelled')),   -- set: from now on only compensations run
    attributes jsonb,                      -- for search
    result json,                           -- json, not jsonb: a replay must read members in the order of the first run
    error jsonb,
    caused_by bigint,
    parent_id bigint,                      -- the workflow that waits for this one, and its step
    parent_position int,
    forked_from bigint,
    created_at timestamptz not null default onceward.now(),
    finished_at timestamptz
) with (fillfactor = 85);
comment on table onceward.workflows is 'A workflow is unfinished while a row of onceward.work has the same id.';
create unique index workflows_key
    on onceward.workflows (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key, name) where key is not null;
create index workflows_finished on onceward.workflows (finished_at) where key is null;
create index workflows_finished_with_key on onceward.workflows (finished_at) where key is not null;
create index workflows_caused_by on onceward.workflows (caused_by) where caused_by is not null;
create index workflows_attributes on onceward.workflows using gin (attributes jsonb_path_ops) where attributes is not null;
create index workflows_organization on onceward.workflows (organization_id, id) where organization_id is not null;
select onceward.protect('onceward.workflows');

create table onceward.workflow_steps (
    workflow_id bigint not null,
    position int not null,                 -- the order in which the code calls the steps
    organization_id uuid,
    kind text not null check (kind in ('step', 'compensation', 'sleep', 'signal', 'child', 'value')),
    key text not null,
    name text not null,
    state text not null check (state in ('done', 'failed', 'retry', 'waiting', 'registered')),
    attempts smallint not null default 0,
    result json,
    error jsonb,
    due_at timestamptz,                    -- time of a retry, end of a sleep, or deadline of a wait
    ref bigint,                            -- the child workflow
    match jsonb,                           -- the content that an announced event must have
    started_at timestamptz,
    finished_at timestamptz,
    primary key (workflow_id, position)
) with (fillfactor = 90);
comment on table onceward.workflow_steps is 'The steps of workflows. A step that is done never runs again.';
create index workflow_steps_awaited on onceward.workflow_steps (name) where kind = 'signal' and state = 'waiting';
select onceward.protect('onceward.workflow_steps');

create table onceward.workflow_signals (
    id bigint generated always as identity primary key,
    workflow_id bigint not null,
    organization_id uuid,
    name text not null,
    payload json not null,
    created_at timestamptz not null default onceward.now()
);
comment on table onceward.workflow_signals is 'Signals that arrived before a wait for them. The wait removes the signal.';
create index workflow_signals_for on onceward.workflow_signals (workflow_id, name, id);
select onceward.protect('onceward.workflow_signals');

create table onceward.workflow_rates (
    name text primary key,                 -- the name of the step function
    next_at timestamptz not null
);
comment on table onceward.workflow_rates is 'When the next step with a rate limit may start, over all nodes.';
grant select, insert, update, delete on onceward.workflow_rates to onceward_engine;

-- A vacuum is due after 2 % of the rows have changed, not after the default 20 %: of 100 million rows that would be 20 million,
-- and the indexes would grow meanwhile.
alter table onceward.workflows set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
alter table onceward.workflow_steps set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
