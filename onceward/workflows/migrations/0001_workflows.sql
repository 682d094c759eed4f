-- Workflows: one row each, one row per step in the order in which the code asks for them, and a mailbox of signals.

alter table onceward.work drop constraint work_kind_check;
alter table onceward.work add constraint work_kind_check
    check (kind in ('event', 'job', 'message', 'delivery', 'workflow'));

create table onceward.workflows (
    id bigint primary key,                 -- also the id of its row in onceward.work while it is unfinished
    organization_id uuid,
    name text not null,
    key text,                              -- at most one workflow of this name with this key, ever
    version text not null,                 -- of the code that it was started with
    args json not null,
    state text not null default 'running' check (state in
        ('running', 'compensating', 'success', 'failed', 'cancelled', 'continued', 'dead_letter')),
    ending text check (ending in ('failed', 'cancelled')),   -- decided: from here on only compensations run
    attributes jsonb,                      -- for search
    result json,                           -- json, not jsonb: a replay must see members in the order of the first run
    error jsonb,
    caused_by bigint,
    parent_id bigint,                      -- the workflow that waits for this one, and at which of its steps
    parent_position int,
    forked_from bigint,
    created_at timestamptz not null default onceward.now(),
    finished_at timestamptz
) with (fillfactor = 85);
comment on table onceward.workflows is 'Unfinished while a row of onceward.work has the same id.';
create unique index workflows_key
    on onceward.workflows (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), name, key) where key is not null;
create index workflows_caused_by on onceward.workflows (caused_by) where caused_by is not null;
create index workflows_attributes on onceward.workflows using gin (attributes jsonb_path_ops) where attributes is not null;
select onceward.protect('onceward.workflows');

create table onceward.workflow_steps (
    workflow_id bigint not null,
    position int not null,                 -- in the order in which the code asked
    organization_id uuid,
    kind text not null check (kind in ('step', 'compensation', 'sleep', 'signal', 'child', 'value')),
    key text not null,
    name text not null,
    state text not null check (state in ('done', 'failed', 'retry', 'waiting', 'registered')),
    attempts smallint not null default 0,
    result json,
    error jsonb,
    due_at timestamptz,                    -- of a retry, the end of a sleep, the deadline of a wait
    ref bigint,                            -- the child workflow
    match jsonb,                           -- what an announced event must contain
    started_at timestamptz,
    finished_at timestamptz,
    primary key (workflow_id, position)
) with (fillfactor = 90);
comment on table onceward.workflow_steps is 'What workflows have done. A row that says done is never run again.';
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
comment on table onceward.workflow_signals is 'Signals that came before anybody waited for them. Taken out by the wait.';
create index workflow_signals_for on onceward.workflow_signals (workflow_id, name, id);
select onceward.protect('onceward.workflow_signals');

create table onceward.workflow_rates (
    name text primary key,                 -- of the step's function
    next_at timestamptz not null
);
comment on table onceward.workflow_rates is 'When the next step with a rate may start, on all nodes together.';
grant select, insert, update, delete on onceward.workflow_rates to onceward_engine;

-- How a workflow advances. Whatever a run writes is fenced by the lease under which it holds the workflow.

create function onceward.start_workflow(
    p_name text, p_args json, p_key text default null, p_version text default '', p_attributes jsonb default null,
    p_run_at timestamptz default null, p_parent bigint default null, p_position int default null,
    p_organization uuid default onceward.organization(), p_caused_by bigint default onceward.cause(),
    out id bigint, out duplicate boolean
) language plpgsql as $$
-- Start a workflow in the caller's transaction, or meet the one that has its key.
declare
    v_owner uuid := coalesce(p_organization, '00000000-0000-0000-0000-000000000000');
begin
    duplicate := false;
    id := nextval('onceward.ids');
    insert into onceward.workflows
        (id, organization_id, name, key, version, args, attributes, caused_by, parent_id, parent_position)
    values (start_workflow.id, p_organization, p_name, p_key, p_version, p_args, p_attributes, p_caused_by, p_parent, p_position)
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'::uuid), name, key) where key is not null
    do nothing;
    if not found then
        duplicate := true;
        select w.id into id from onceward.workflows w
         where coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000'::uuid) = v_owner
           and w.name = p_name and w.key = p_key;
        return;
    end if;
    insert into onceward.work (id, organization_id, kind, task, queue, sort_at)
    values (start_workflow.id, p_organization, 'workflow', 'workflow:' || p_name, 'workflows', coalesce(p_run_at, onceward.now()));
end
$$;

create function onceward.workflow_release(p_id bigint) returns void language sql as $$
-- Let a waiting workflow look at what has come. One that is running looks before it parks.
    update onceward.work set sort_at = onceward.now()
     where id = p_id and lease is null and dead_reason is null and sort_at > onceward.now();
$$;

create function onceward.workflow_park(p_id bigint, p_lease bigint, p_until timestamptz, p_waiting int[])
    returns boolean language plpgsql as $$
-- Put the workflow down until a time, or until one of its waiting steps is answered. False: the lease was lost.
begin
    update onceward.work
       set lease = null, claimed_at = null, slot = null, parent_slot = null, crashes = 0, attempts = 0, sort_at = coalesce(p_until, 'infinity')
     where id = p_id and lease = p_lease;
    if not found then
        return false;
    end if;
    -- Looked at after the row was locked: an answer either came before and is seen here, or waits for the lock.
    if exists (select from onceward.workflow_steps s
                where s.workflow_id = p_id and s.position = any(p_waiting) and s.state <> 'waiting')
    then
        update onceward.work set sort_at = onceward.now() where id = p_id;
    end if;
    return true;
end
$$;

create function onceward.json_contains(p_payload json, p_match jsonb) returns boolean language plpgsql immutable as $$
-- Whether a payload contains what a wait asks for. A payload that jsonb cannot hold contains nothing that was asked for.
begin
    return p_payload::jsonb @> p_match;
exception when data_exception then
    return false;
end
$$;

create function onceward.workflow_wait(
    p_id bigint, p_lease bigint, p_position int, p_key text, p_name text, p_match jsonb, p_timeout_s float8,
    out state text, out result text, out due_at timestamptz
) language plpgsql as $$
-- Take the oldest signal of this name that contains p_match out of the mailbox, or record that the workflow waits for one.
declare
    v_organization uuid;
    v_due timestamptz := onceward.now() + make_interval(secs => p_timeout_s);   -- null: for ever
begin
    select w.organization_id into v_organization
      from onceward.work w where w.id = p_id and w.lease = p_lease for update;
    if not found then
        state := 'lost';
        return;
    end if;
    delete from onceward.workflow_signals s
     where s.id = (select f.id from onceward.workflow_signals f
                    where f.workflow_id = p_id and f.name = p_name
                      and (p_match is null or onceward.json_contains(f.payload, p_match))
                    order by f.id limit 1)
    returning s.payload::text into result;
    state := case when found then 'done' else 'waiting' end;
    due_at := v_due;
    insert into onceward.workflow_steps
        (workflow_id, position, organization_id, kind, key, name, state, result, due_at, match, started_at, finished_at)
    values (p_id, p_position, v_organization, 'signal', p_key, p_name, workflow_wait.state, workflow_wait.result::json, v_due,
            p_match, clock_timestamp(), case when workflow_wait.state = 'done' then clock_timestamp() end);
end
$$;

create function onceward.workflow_signal(p_id bigint, p_name text, p_payload json) returns text language plpgsql as $$
-- Answer the wait for this signal, or keep it for the wait to come. 'gone': the workflow has ended.
declare
    v_organization uuid;
begin
    select w.organization_id into v_organization
      from onceward.work w where w.id = p_id and w.kind = 'workflow' for update;
    if not found then
        return 'gone';
    end if;
    update onceward.workflow_steps s
       set state = 'done', result = p_payload, finished_at = clock_timestamp()
     where s.workflow_id = p_id and s.position = (
         select min(f.position) from onceward.workflow_steps f
          where f.workflow_id = p_id and f.kind = 'signal' and f.state = 'waiting' and f.name = p_name
            and (f.match is null or onceward.json_contains(p_payload, f.match)));
    if not found then
        insert into onceward.workflow_signals (workflow_id, organization_id, name, payload)
        values (p_id, v_organization, p_name, p_payload);
        return 'kept';
    end if;
    perform onceward.workflow_release(p_id);
    return 'delivered';
end
$$;

create function onceward.workflow_announce(p_name text, p_payload json) returns bigint[] language plpgsql as $$
-- Answer every workflow of this organization that waits for an event of this name and content. Nobody waits: nothing kept.
declare
    v record;
    v_told bigint[] := '{}';
begin
    for v in
        select s.workflow_id, s.position from onceward.workflow_steps s
         where s.kind = 'signal' and s.state = 'waiting' and s.name = p_name and s.match is not null
           and s.organization_id is not distinct from onceward.organization() and p_payload::jsonb @> s.match
         order by s.workflow_id, s.position
    loop
        perform from onceward.work w where w.id = v.workflow_id for update;
        update onceward.workflow_steps s
           set state = 'done', result = p_payload, finished_at = clock_timestamp()
         where s.workflow_id = v.workflow_id and s.position = v.position and s.state = 'waiting';
        if found then
            perform onceward.workflow_release(v.workflow_id);
            v_told := v_told || v.workflow_id;
        end if;
    end loop;
    return v_told;
end
$$;

create function onceward.workflow_tell_parent(p_parent bigint, p_position int, p_state text, p_result json, p_error jsonb)
    returns void language plpgsql as $$
-- A child has ended: its parent's step has its answer.
begin
    perform from onceward.work w where w.id = p_parent for update;
    update onceward.workflow_steps
       set state = case when p_state = 'success' then 'done' else 'failed' end, result = p_result,
           error = case when p_state <> 'success' then
                       coalesce(p_error, jsonb_build_object('type', 'ChildEnded', 'message', 'the child workflow ended as ' || p_state))
                   end,
           finished_at = clock_timestamp()
     where workflow_id = p_parent and position = p_position and state = 'waiting';
    perform onceward.workflow_release(p_parent);
end
$$;

create function onceward.workflow_record_or_fail(
    p_id bigint, p_lease bigint, p_position int, p_kind text, p_key text, p_name text, p_state text, p_attempts int,
    p_result json, p_ref bigint, p_started timestamptz
) returns void language plpgsql as $$
-- The last statement of a step's own transaction: its record and its effects are one commit, or neither is.
begin
    insert into onceward.workflow_steps as s
        (workflow_id, position, organization_id, kind, key, name, state, attempts, result, ref, due_at, started_at, finished_at)
    select p_id, p_position, w.organization_id, p_kind, p_key, p_name, p_state, p_attempts, p_result, p_ref,
           null, p_started, case when p_state <> 'waiting' then clock_timestamp() end
      from (select h.organization_id from onceward.work h where h.id = p_id and h.lease = p_lease for share) w
    on conflict (workflow_id, position) do update
        set state = excluded.state, attempts = excluded.attempts, result = excluded.result, error = null,
            due_at = excluded.due_at, finished_at = excluded.finished_at
        where s.state in ('retry', 'registered') or (s.kind = 'compensation' and s.state = 'failed');
    if not found then
        raise exception 'workflow % is no longer held under this lease', p_id using errcode = 'OW001';
    end if;
end
$$;

create function onceward.workflow_cancel_child_or_fail(p_id bigint, p_lease bigint, p_child bigint)
    returns void language plpgsql as $$
-- Cancel one child of a workflow that is held under this lease. A run that lost its lease must not cancel anything: the
-- children belong to the run that replaced it. The child is locked before its parent, as when a child ends.
begin
    perform onceward.cancel(p_child);
    perform from onceward.work w where w.id = p_id and w.lease = p_lease for share;
    if not found then
        raise exception 'workflow % is no longer held under this lease', p_id using errcode = 'OW001';
    end if;
end
$$;

create function onceward.workflow_continue(
    p_id bigint, p_lease bigint, p_worker bigint, p_started timestamptz, p_args json, p_version text
) returns bigint language plpgsql as $$
-- End this history and begin the next one in its place: same key, attributes, parent and unread signals. Null: lease lost.
declare
    v onceward.workflows;
    v_new bigint;
begin
    perform from onceward.work w where w.id = p_id and w.lease = p_lease for update;
    if not found then
        return null;
    end if;
    select * into v from onceward.workflows w where w.id = p_id;
    update onceward.workflows set key = null, parent_id = null, parent_position = null where id = p_id;
    select s.id into v_new from onceward.start_workflow(
        v.name, p_args, v.key, p_version, v.attributes, null, v.parent_id, v.parent_position, v.organization_id, p_id) s;
    update onceward.workflow_signals set workflow_id = v_new where workflow_id = p_id;
    update onceward.workflow_steps set ref = v_new where workflow_id = v.parent_id and position = v.parent_position;
    perform onceward.settle(p_id, p_lease, p_worker, 'success', p_started, jsonb_build_object('continued_as', v_new));
    update onceward.workflows set state = 'continued', result = json_build_object('continued_as', v_new) where id = p_id;
    return v_new;
end
$$;

create function onceward.settled_workflow(p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
-- What the work engine decided about a workflow. Cancelling one that has something to undo makes it undo it first.
declare
    v onceward.workflows;
    v_state text;
begin
    if p_outcome in ('retry', 'snoozed', 'crashed') then
        update onceward.workflows
           set state = case when ending is null then 'running' else 'compensating' end, error = null, finished_at = null
         where id = p_id and state = 'dead_letter';
        return;
    end if;
    if p_outcome = 'cancelled' then
        update onceward.workflows w
           set ending = coalesce(w.ending, 'cancelled'), state = 'compensating',
               error = coalesce(w.error, p_error)
         where w.id = p_id and (w.ending is not null or exists (
             select from onceward.workflow_steps s
              where s.workflow_id = p_id
                and (s.kind = 'compensation' and s.state <> 'done' or s.kind = 'child' and s.state = 'waiting')))
        returning w.* into v;
        if found then
            insert into onceward.work (id, organization_id, kind, task, queue, sort_at)
            values (p_id, v.organization_id, 'workflow', 'workflow:' || v.name, 'workflows', onceward.now());
            return;
        end if;
    end if;
    v_state := case p_outcome when 'success' then 'success' when 'dead_letter' then 'dead_letter'
                              when 'cancelled' then 'cancelled' when 'discarded' then 'cancelled' else 'failed' end;
    update onceward.workflows w
       set state = v_state, error = coalesce(p_error, w.error),
           finished_at = case when p_outcome <> 'dead_letter' then onceward.now() end
     where w.id = p_id
    returning w.* into v;
    if v.parent_id is not null and p_outcome <> 'dead_letter' then
        perform onceward.workflow_tell_parent(v.parent_id, v.parent_position, v_state, null, v.error);
    end if;
end
$$;
