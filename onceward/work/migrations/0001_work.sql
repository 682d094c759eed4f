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

-- The ways out of processing. Each clears the lease or deletes the row; each is fenced by (id, lease).

create function onceward.record_attempts(p_attempts onceward.attempts[]) returns void language plpgsql as $$
-- Append finished attempts. Nothing else inserts into onceward.attempts, so every end of a work item passes through here.
begin
    insert into onceward.attempts select a.* from unnest(p_attempts) a;
end
$$;

create function onceward.settled(p_kind text, p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
-- Tell the kind's own table what became of its row: onceward.settled_<kind>, made by the package that owns it.
begin
    if p_kind <> 'job' then
        execute format('select onceward.settled_%s($1, $2, $3, $4, $5)', p_kind)
            using p_id, p_outcome, p_number, p_result, p_error;
    end if;
end
$$;

create function onceward.leave_bundle(p_bundle bigint) returns void language plpgsql as $$
-- One member of the bundle is done; the last one releases what waits for it.
declare
    v_then bigint;
begin
    update onceward.bundles set remaining = remaining - 1
     where id = p_bundle
    returning case when remaining = 0 then then_id end into v_then;
    if v_then is not null then
        update onceward.work set sort_at = onceward.now() where id = v_then and lease is null;
        delete from onceward.bundles where id = p_bundle;
    end if;
end
$$;

create function onceward.settle(
    p_id bigint, p_lease bigint, p_worker bigint, p_outcome text, p_started timestamptz,
    p_result jsonb default null, p_error jsonb default null, p_due timestamptz default null, p_reason text default null
) returns boolean language plpgsql as $$
-- One attempt is over. False: the lease was lost, nothing was written.
declare
    v record;
begin
    if p_outcome = 'crashed' then
        -- Its handler lost the connection. A restart of the server is nobody's fault; otherwise it counts as a crash, since a
        -- statement that ends its own session would run for ever. p_reason is that of the dead letter it becomes at the third.
        update onceward.work w
           set lease = null, claimed_at = null, slot = null, parent_slot = null, sort_at = p_due,
               crashes = w.crashes + n.counted,
               dead_reason = case when w.crashes + n.counted >= 3 then p_reason end,
               dead_at = case when w.crashes + n.counted >= 3 then onceward.now() end
          from (select case when c.claimed_at > pg_postmaster_start_time() then 1 else 0 end as counted
                  from onceward.work c where c.id = p_id and c.lease = p_lease for update) n
         where w.id = p_id and w.lease = p_lease
        returning w.kind, w.task, w.attempts::int as attempts, w.organization_id, null::bigint as bundle,
                  case when w.dead_reason is not null then 'dead_letter' when n.counted = 1 then 'crashed' else 'snoozed' end as outcome
             into v;
        if found then
            p_outcome := v.outcome;
        end if;
    elsif p_outcome in ('retry', 'snoozed') then
        update onceward.work
           set lease = null, claimed_at = null, slot = null, parent_slot = null, sort_at = p_due,
               attempts = attempts + case when p_outcome = 'retry' then 1 else 0 end,
               crashes = 0
         where id = p_id and lease = p_lease
        returning kind, task, (attempts - case when p_outcome = 'retry' then 1 else 0 end)::int as attempts,
                  organization_id, null::bigint as bundle into v;
    elsif p_outcome = 'dead_letter' then
        update onceward.work
           set lease = null, claimed_at = null, slot = null, parent_slot = null, cancel = null,
               dead_reason = p_reason, dead_at = onceward.now()
         where id = p_id and lease = p_lease
        returning kind, task, attempts::int as attempts, organization_id, null::bigint as bundle into v;
    else
        delete from onceward.work where id = p_id and lease = p_lease
        returning kind, task, attempts::int as attempts, organization_id, bundle into v;
    end if;
    if not found then
        return false;
    end if;
    perform onceward.record_attempts(array[row(
        p_id, v.organization_id, v.attempts + 1, v.kind, v.task, p_outcome, p_worker, p_started, clock_timestamp(), p_result, p_error
    )::onceward.attempts]);
    if v.bundle is not null then
        perform onceward.leave_bundle(v.bundle);
    end if;
    if v.kind <> 'job' then
        perform onceward.settled(v.kind, p_id, p_outcome, v.attempts + 1, p_result, p_error);
    end if;
    return true;
end
$$;

create function onceward.succeed_or_fail(
    p_id bigint, p_lease bigint, p_worker bigint, p_started timestamptz, p_result jsonb
) returns void language plpgsql as $$
-- Success as the last statement of a handler's transaction: a lost lease prevents the commit. As settle() does it, without a
-- branch: every transaction pays for this one.
declare
    v_organization uuid;
    v_number int;
    v_kind text;
    v_task text;
    v_bundle bigint;
begin
    delete from onceward.work where id = p_id and lease = p_lease
    returning organization_id, attempts + 1, kind, task, bundle into v_organization, v_number, v_kind, v_task, v_bundle;
    if not found then
        raise exception 'work % is no longer held under this lease', p_id using errcode = 'OW001';
    end if;
    perform onceward.record_attempts(array[row(
        p_id, v_organization, v_number, v_kind, v_task, 'success', p_worker, p_started, clock_timestamp(), p_result, null
    )::onceward.attempts]);
    if v_bundle is not null then
        perform onceward.leave_bundle(v_bundle);
    end if;
    if v_kind <> 'job' then
        perform onceward.settled(v_kind, p_id, 'success', v_number, p_result, null);
    end if;
end
$$;

create function onceward.finish_or_fail(p_ids bigint[], p_leases bigint[], p_worker bigint) returns void
    language plpgsql as $$
-- All of a batch as the last statement of its transaction: one lost lease prevents the commit.
declare
    v_count int;
    v_bundles bigint[];
    v_bundle bigint;
    v_attempts onceward.attempts[];
begin
    with done as (
        delete from onceward.work
         where id = any(p_ids) and lease = any(p_leases)
        returning id, organization_id, attempts, kind, task, claimed_at, bundle
    )
    select count(*), array_agg(bundle order by bundle) filter (where bundle is not null),
           array_agg(row(id, organization_id, attempts + 1, kind, task, 'success', p_worker, claimed_at, (select clock_timestamp()), null, null
                     )::onceward.attempts)
      into v_count, v_bundles, v_attempts from done;
    perform onceward.record_attempts(v_attempts);
    -- In order, so that two batches with members of the same bundles do not wait for each other.
    foreach v_bundle in array coalesce(v_bundles, '{}') loop
        perform onceward.leave_bundle(v_bundle);
    end loop;
    if v_count < cardinality(p_ids) then
        raise exception 'a batch is no longer held under its lease' using errcode = 'OW001';
    end if;
end
$$;

create function onceward.rescue(p_worker bigint, p_beat bigint)
    returns table (id bigint, kind text, task text, organization_id uuid, crashes int, dead boolean)
    language plpgsql as $$
-- Give back what a dead worker held. A suspect (two workers died with it) ran alone and is to blame; without one, all
-- count up. A first crash is nobody's fault yet: what many workers held must not have to run one after the other.
declare
    v_claim record;
    v_row record;
    v_suspects boolean;
    v_counts boolean;
begin
    -- Its own heart may have moved since it was observed: then it lives, and keeps what it has.
    perform from onceward.workers w where w.id = p_worker for update;
    if exists (select from onceward.workers w where w.id = p_worker and w.beat is distinct from p_beat) then
        return;
    end if;
    delete from onceward.workers w where w.id = p_worker;

    -- A workflow runs among others once more before it runs alone: it has many steps, and most were not to blame.
    select coalesce(bool_or(w.crashes > 1), false) into v_suspects
      from onceward.claims c
      join onceward.work w on w.id = any(c.ids) and w.lease = c.lease
     where c.worker = p_worker;

    for v_claim in delete from onceward.claims c where c.worker = p_worker returning c.lease, c.ids loop
        for v_row in
            select w.id, w.kind, w.task, w.attempts, w.crashes, w.organization_id, w.claimed_at
              from onceward.work w
             where w.id = any(v_claim.ids) and w.lease = v_claim.lease
             order by w.id for update
        loop
            v_counts := v_row.crashes > 1 or not v_suspects;
            update onceward.work w
               set lease = null, claimed_at = null, slot = null, parent_slot = null,
                   crashes = w.crashes + case when v_counts then 1 else 0 end,
                   dead_reason = case when v_counts and w.crashes + 1 >= 3 then 'worker_lost' end,
                   dead_at = case when v_counts and w.crashes + 1 >= 3 then onceward.now() end
             where w.id = v_row.id;
            if v_counts then
                perform onceward.record_attempts(array[row(
                    v_row.id, v_row.organization_id, v_row.attempts + 1, v_row.kind, v_row.task,
                    case when v_row.crashes + 1 >= 3 then 'dead_letter' else 'crashed' end, p_worker, v_row.claimed_at,
                    clock_timestamp(), null,
                    jsonb_build_object('type', 'WorkerLost', 'message', 'the worker that held the work stopped responding',
                                       'reason', 'worker_lost')
                )::onceward.attempts]);
                if v_row.kind <> 'job' then
                    perform onceward.settled(v_row.kind, v_row.id,
                        case when v_row.crashes + 1 >= 3 then 'dead_letter' else 'crashed' end, v_row.attempts + 1,
                        null, '{"type": "WorkerLost", "reason": "worker_lost"}');
                end if;
            end if;
            id := v_row.id; kind := v_row.kind; task := v_row.task; organization_id := v_row.organization_id;
            crashes := v_row.crashes + case when v_counts then 1 else 0 end;
            dead := v_counts and v_row.crashes + 1 >= 3;
            return next;
        end loop;
    end loop;
end
$$;

-- Claiming by lane: order, exact concurrency, fairness, pause, rate and breaker in one mechanism.

create index work_suspect on onceward.work (queue, sort_at)
    where crashes > 1 and lease is null and dead_reason is null;

create function onceward.claim_lanes(
    p_queue text, p_tasks text[], p_limit int, p_lease bigint, p_worker bigint, p_cursor text, p_suspect boolean
) returns table (
    id bigint, kind text, task text, organization_id uuid, attempts smallint, crashes smallint, max_attempts smallint,
    bundle bigint, lane text, sort_at timestamptz, args jsonb, caused_by bigint, tags text[],
    last_lane text, visited int, resume_s float8
) language plpgsql
    -- One plan for a table of any size: planning each probe anew cost as much as all the rest.
    set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
-- Take due work lane by lane, starting after p_cursor: one index probe passes over a lane with any number of rows.
-- Exactness is the unique index on (queue, lane, slot); a claimer that loses the race for a slot leaves that lane alone.
-- Without work there is one row, with id null. resume_s: when a lane that had to be passed over may go on.
-- Rows are locked lane by lane and written together at the end: each update would open all the indexes again.
#variable_conflict use_column
declare
    v_lane text := p_cursor;
    v_wrapped boolean := false;
    v_now timestamptz := onceward.now();
    v_clock timestamptz := clock_timestamp();
    v_ordered record;      -- the next ordered lane, and the next other one: each is looked for when it has been passed
    v_due record;
    v_look_ordered boolean := true;
    v_look_due boolean := true;
    v_is_ordered boolean;
    v_config onceward.lanes;
    v_row record;
    v_slots smallint[];
    v_cap int;
    v_take int;
    v_here bigint[];
    v_plain boolean;       -- no parent and no suspect among them: nothing to look at row by row
    v_ids bigint[] := '{}';          -- taken already
    v_later bigint[] := '{}';        -- locked, to be taken at the end, with these slots
    v_later_slots smallint[] := '{}';
    v_wrapped_at int := 0;           -- how many of them come before the first lane was reached again
    v_last text := p_cursor;
    v_visited int := 0;
    v_resume timestamptz;
begin
    while cardinality(v_ids) + cardinality(v_later) < p_limit and v_visited < 500 loop
        if v_look_ordered then
            select w.lane, w.cap,
                   exists (select from onceward.lanes l where l.queue = p_queue and l.lane = w.lane) as configured
              into v_ordered from onceward.work w
             where w.queue = p_queue and w.lane > v_lane and w.ordered and w.lease is null and w.dead_reason is null
             order by w.lane, w.id limit 1;
            v_look_ordered := false;
        end if;
        if v_look_due then
            select w.lane, w.cap, w.sort_at,
                   exists (select from onceward.lanes l where l.queue = p_queue and l.lane = w.lane) as configured
              into v_due from onceward.work w
             where w.queue = p_queue and w.lane > v_lane and w.ordered is not true and w.lease is null and w.dead_reason is null
             order by w.lane, w.sort_at, w.id limit 1;
            v_look_due := false;
        end if;
        if v_ordered.lane is null and v_due.lane is null then
            exit when v_wrapped or p_cursor = '';
            v_wrapped := true;
            v_wrapped_at := cardinality(v_later);
            v_lane := '';
            v_look_ordered := true;
            v_look_due := true;
            continue;
        end if;
        v_is_ordered := v_due.lane is null or coalesce(v_ordered.lane <= v_due.lane, false);
        if v_is_ordered then
            v_lane := v_ordered.lane;
            v_cap := v_ordered.cap;
            v_look_ordered := true;
            v_look_due := v_due.lane = v_lane;     -- a lane with both: the ordered ones only, this time
        else
            v_lane := v_due.lane;
            v_cap := v_due.cap;
            v_look_due := true;
        end if;
        exit when v_wrapped and v_lane > p_cursor;
        v_visited := v_visited + 1;
        v_last := v_lane;
        if not v_is_ordered and v_due.sort_at > v_now then
            v_resume := least(v_resume, v_clock + (v_due.sort_at - v_now));
            continue;
        end if;

        v_config := null;
        if (v_is_ordered and v_ordered.configured) or (not v_is_ordered and v_due.configured) then
            select * into v_config from onceward.lanes l where l.queue = p_queue and l.lane = v_lane for update skip locked;
            continue when not found;               -- another claimer is at it
            continue when v_config.paused_at is not null;
            if v_config.open_until > clock_timestamp() or v_config.next_at > clock_timestamp() then
                v_resume := least(v_resume, greatest(v_config.open_until, v_config.next_at));
                continue;
            end if;
        end if;

        v_take := p_limit - cardinality(v_ids) - cardinality(v_later);
        if v_config.rate_per_s is not null or v_is_ordered or v_config.failures > 0 then
            v_take := 1;   -- a rate, an order, or a breaker that tries whether it holds
        else
            v_take := least(v_take, 8 * coalesce(v_config.weight, 1));   -- then it is the next lane's turn
        end if;
        v_cap := case when v_is_ordered or v_config.open_until is not null then 1   -- tripped: one, to see whether it works
                      else coalesce(v_config.cap, v_cap) end;
        if v_cap is not null then
            v_slots := array(
                select s.n from generate_series(1, v_cap) s(n)
                 where s.n not in (
                     select w.slot::int from onceward.work w
                      where w.queue = p_queue and w.lane = v_lane and w.slot is not null)
                 limit v_take);
            continue when cardinality(v_slots) = 0;
            v_take := cardinality(v_slots);
        end if;

        v_here := '{}';
        if v_is_ordered then
            select w.id, w.task, w.crashes, w.sort_at, w.parent is null as plain into v_row
              from onceward.work w
             where w.queue = p_queue and w.lane = v_lane and w.ordered and w.lease is null and w.dead_reason is null
             order by w.id limit 1 for update skip locked;
            continue when not found or not v_row.task = any(p_tasks) or (v_row.crashes > 1 and not p_suspect);
            if v_row.sort_at > v_now then          -- an ordered lane waits for its head
                v_resume := least(v_resume, v_clock + (v_row.sort_at - v_now));
                continue;
            end if;
            continue when exists (                 -- an earlier one is held, or being taken
                select from onceward.work w
                 where w.queue = p_queue and w.lane = v_lane and w.slot is not null and w.id < v_row.id)
              or exists (
                select from onceward.work w
                 where w.queue = p_queue and w.lane = v_lane and w.ordered and w.lease is null
                   and w.dead_reason is null and w.id < v_row.id);
            v_here := array[v_row.id];
            v_plain := v_row.plain and v_row.crashes < 2;
        else
            select coalesce(array_agg(r.id order by r.sort_at, r.id), '{}'), bool_and(r.parent is null and r.crashes < 2)
              into v_here, v_plain
              from (select w.id, w.sort_at, w.parent, w.crashes
                      from onceward.work w
                     where w.queue = p_queue and w.lane = v_lane and w.ordered is not true
                       and w.lease is null and w.dead_reason is null
                       and w.sort_at <= v_now and w.task = any(p_tasks) and (w.crashes < 2 or p_suspect)
                     order by w.sort_at, w.id limit v_take for update skip locked) r;
        end if;
        continue when cardinality(v_here) = 0;
        if v_plain then
            v_later := v_later || v_here;
            v_later_slots := v_later_slots || case when v_cap is null then array_fill(null::smallint, array[cardinality(v_here)])
                                                   else v_slots[:cardinality(v_here)] end;
        else
            begin
                select h.held, p_suspect and not h.suspect into v_here, p_suspect
                  from onceward.hold_in_lane(v_here, case when v_cap is null then null else v_slots end, p_queue, p_lease, p_suspect) h;
            exception when unique_violation or lock_not_available then
                continue;
            end;
        end if;
        if v_config.rate_per_s is not null and cardinality(v_here) > 0 then
            update onceward.lanes l
               set next_at = greatest(coalesce(l.next_at, clock_timestamp()), clock_timestamp())
                             + make_interval(secs => 1 / l.rate_per_s)
             where l.queue = p_queue and l.lane = v_lane
            returning least(v_resume, l.next_at) into v_resume;
        end if;
        if not v_plain then
            v_ids := v_ids || v_here;
        end if;
    end loop;
    -- In the order of lanes, wherever the cursor was: two claimers then wait for each other in one direction only.
    v_ids := v_ids || onceward.hold_together(
        v_later[v_wrapped_at + 1:] || v_later[:v_wrapped_at],
        v_later_slots[v_wrapped_at + 1:] || v_later_slots[:v_wrapped_at], p_lease);
    if cardinality(v_ids) > 0 then
        insert into onceward.claims (lease, worker, ids) values (p_lease, p_worker, v_ids);
    end if;
    return query
        select w.id, w.kind, w.task, w.organization_id, w.attempts, w.crashes, w.max_attempts, w.bundle, w.lane, w.sort_at,
               j.args, j.caused_by, j.tags, v_last, v_visited,
               extract(epoch from v_resume - clock_timestamp())::float8
          from (select) one
          left join onceward.work w on w.id = any(v_ids) and w.lease = p_lease
          left join onceward.jobs j on j.id = w.id and w.kind = 'job'
         order by w.id;
end
$$;

create function onceward.hold_together(p_ids bigint[], p_slots smallint[], p_lease bigint) returns bigint[]
    language plpgsql set enable_hashjoin = off set enable_mergejoin = off set lock_timeout = '100ms' as $$
-- Take rows that the caller has locked, each with its slot, in one update. A claimer that was faster with a slot makes that
-- fail; then each is taken alone, and those whose slot is gone stay where they are.
-- A slot that another claimer is taking right now is waited for only briefly: that claimer may be waiting for one of ours.
declare
    v_held bigint[] := '{}';
begin
    if cardinality(p_ids) = 0 then
        return p_ids;
    end if;
    begin
        update onceward.work w
           set lease = p_lease, claimed_at = clock_timestamp(), slot = t.slot
          from unnest(p_ids, p_slots) t (id, slot)
         where w.id = t.id;
        return p_ids;
    exception when unique_violation or lock_not_available then
        null;
    end;
    perform set_config('lock_timeout', '1ms', true);   -- until the end of this function: whoever is at it gets it
    for n in 1 .. cardinality(p_ids) loop
        begin
            update onceward.work w
               set lease = p_lease, claimed_at = clock_timestamp(), slot = p_slots[n]
             where w.id = p_ids[n];
            v_held := v_held || p_ids[n];
        exception when unique_violation or lock_not_available then
            continue;
        end;
    end loop;
    return v_held;
end
$$;

create function onceward.hold_in_lane(
    p_ids bigint[], p_slots smallint[], p_queue text, p_lease bigint, p_suspect boolean, out held bigint[], out suspect boolean
) language plpgsql set lock_timeout = '20ms' as $$
-- Take rows one by one: at most one suspect, and each with a slot of its parent where it has one. A full parent leaves a
-- row where it is.
declare
    v_row record;
    v_parent_slot int;
begin
    held := '{}';
    suspect := false;
    for v_row in
        select w.id, w.parent, w.parent_cap, w.crashes
          from unnest(p_ids) with ordinality i (id, n) join onceward.work w on w.id = i.id
         order by i.n
    loop
        continue when v_row.crashes > 1 and (suspect or not p_suspect);
        v_parent_slot := null;
        if v_row.parent is not null then
            select s.n into v_parent_slot from generate_series(1, v_row.parent_cap) s(n)
             where not exists (
                 select from onceward.work p
                  where p.queue = p_queue and p.parent = v_row.parent and p.parent_slot = s.n)
             limit 1;
            continue when not found;
        end if;
        update onceward.work w
           set lease = p_lease, claimed_at = clock_timestamp(), slot = p_slots[cardinality(held) + 1],
               parent_slot = v_parent_slot
         where w.id = v_row.id;
        held := held || v_row.id;
        suspect := suspect or v_row.crashes > 1;
    end loop;
end
$$;

-- Enqueue from any client: one function, in the caller's transaction.

create function onceward.enqueue_row(
    p_task text, p_args jsonb, p_queue text, p_run_at timestamptz, p_boost_s int, p_unique_key text,
    p_unique_for text, p_on_conflict text, p_lane text, p_cap int, p_ordered boolean, p_parent text, p_parent_cap int,
    p_max_attempts int, p_tags text[], p_bundle bigint, p_organization uuid, p_caused_by bigint,
    out id bigint, out duplicate boolean
) language plpgsql as $$
-- Insert one job, or meet the unfinished (or remembered) one that has its unique key.
declare
    v_now timestamptz := onceward.now();
    v_due timestamptz := coalesce(p_run_at, v_now);
    v_sort timestamptz := case when v_due <= v_now then v_due - make_interval(secs => p_boost_s) else v_due end;
    v_owner uuid := coalesce(p_organization, '00000000-0000-0000-0000-000000000000');
    v_key text := case when p_unique_key is not null then p_task || ':' || p_unique_key end;
    v_lease bigint;
begin
    id := nextval('onceward.ids');
    duplicate := false;
    if v_key is not null and p_unique_for <> 'unfinished' then
        insert into onceward.unique_keys as k (organization_id, key, work_id, expires_at)
        values (v_owner, v_key, id, case when p_unique_for <> 'ever' then v_now + p_unique_for::interval end)
        on conflict (organization_id, key) do update
            set work_id = excluded.work_id, expires_at = excluded.expires_at
            where k.expires_at <= v_now;
        if not found then
            select k.work_id into id from onceward.unique_keys k where k.organization_id = v_owner and k.key = v_key;
            duplicate := true;
            return;
        end if;
    end if;
    insert into onceward.work as w
        (id, organization_id, kind, task, queue, sort_at, max_attempts, lane, cap, ordered, parent, parent_cap, unique_key, bundle)
    values (enqueue_row.id, p_organization, 'job', p_task, p_queue, v_sort, p_max_attempts, p_lane, p_cap, p_ordered,
            p_parent, p_parent_cap, v_key, p_bundle)
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'::uuid), unique_key)
        where unique_key is not null and dead_reason is null
    do nothing;
    if found then
        insert into onceward.jobs (id, organization_id, task, args, caused_by, tags)
        values (enqueue_row.id, p_organization, p_task, p_args, p_caused_by, p_tags);
        return;
    end if;

    duplicate := true;
    select w.id, w.lease into id, v_lease
      from onceward.work w
     where coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000'::uuid) = v_owner
       and w.unique_key = v_key and w.dead_reason is null
       for update;
    if id is null then
        -- It finished between the two statements; this one is wanted after all.
        select r.id, r.duplicate into id, duplicate from onceward.enqueue_row(
            p_task, p_args, p_queue, p_run_at, p_boost_s, p_unique_key, 'unfinished', p_on_conflict, p_lane, p_cap,
            p_ordered, p_parent, p_parent_cap, p_max_attempts, p_tags, p_bundle, p_organization, p_caused_by) r;
        return;
    end if;
    if v_lease is null and p_on_conflict in ('replace', 'debounce') then
        update onceward.work w set sort_at = v_sort where w.id = enqueue_row.id;
        if p_on_conflict = 'replace' then
            update onceward.jobs j set args = p_args, tags = p_tags where j.id = enqueue_row.id;
        end if;
    end if;
end
$$;

create function onceward.enqueue(
    task text, args jsonb default '{}', queue text default 'default', run_at timestamptz default null,
    boost_s int default 0, unique_key text default null, unique_for text default 'unfinished',
    on_conflict text default 'skip', lane text default null, cap int default null, ordered boolean default false,
    max_attempts int default null, tags text[] default null
) returns bigint language plpgsql as $$
-- For other languages and for psql: returns the id of the job, or of the one that already has the unique key.
declare
    v_id bigint;
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
    if length(args::text) > 1048576 then
        raise exception 'onceward.enqueue: args of % take % bytes, more than 1 MiB: store them and pass a reference',
            task, length(args::text) using errcode = '22023';
    end if;
    select r.id into v_id from onceward.enqueue_row(
        task, args, queue, run_at, boost_s, unique_key, unique_for, on_conflict, lane,
        case when ordered then 1 else cap end, ordered, null, null, max_attempts, tags, null,
        onceward.organization(), onceward.cause()) r;
    return v_id;
end
$$;

-- What operators do to unfinished work: replay and discard dead letters, cancel, hand out snoozes.

create function onceward.replay(p_id bigint) returns text language plpgsql as $$
-- Make a dead letter due again under the same id. 'taken': its unique key belongs to newer work, so it stays dead.
declare
    v record;
begin
    select * into v from onceward.work w where w.id = p_id and w.dead_reason is not null for update;
    if not found then
        return 'gone';
    end if;
    if v.unique_key is not null and exists (
        select from onceward.work w
         where coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000'::uuid)
               = coalesce(v.organization_id, '00000000-0000-0000-0000-000000000000'::uuid)
           and w.unique_key = v.unique_key and w.dead_reason is null)
    then
        return 'taken';
    end if;
    update onceward.work
       set dead_reason = null, dead_at = null, attempts = 0, crashes = 0, cancel = null, sort_at = onceward.now()
     where id = p_id;
    perform onceward.settled(v.kind, p_id, 'retry', 0, null, null);
    return 'replayed';
end
$$;

create function onceward.discard(p_id bigint) returns text language plpgsql as $$
-- An operator has decided that a dead letter needs nothing more. What it was stays readable until it is pruned.
declare
    v record;
begin
    delete from onceward.work w where w.id = p_id and w.dead_reason is not null
    returning w.kind, w.task, w.attempts::int as attempts, w.organization_id, w.dead_reason, w.bundle into v;
    if not found then
        return 'gone';
    end if;
    perform onceward.record_attempts(array[row(
        p_id, v.organization_id, v.attempts + 1, v.kind, v.task, 'discarded', null, clock_timestamp(), clock_timestamp(), null,
        jsonb_build_object('type', 'Discarded', 'message', 'discarded by an operator', 'reason', v.dead_reason)
    )::onceward.attempts]);
    if v.bundle is not null then
        perform onceward.leave_bundle(v.bundle);
    end if;
    perform onceward.settled(v.kind, p_id, 'discarded', v.attempts + 1, null, null);
    return 'discarded';
end
$$;

create function onceward.cancel(p_id bigint) returns text language plpgsql as $$
-- Waiting work ends now; running work is asked to stop and ends as soon as its worker has heard of it.
declare
    v record;
begin
    select w.kind, w.task, w.attempts::int as attempts, w.organization_id, w.lease, w.dead_reason, w.bundle into v
      from onceward.work w where w.id = p_id for update;
    if not found or v.dead_reason is not null then
        return 'gone';
    end if;
    if v.lease is not null then
        update onceward.work set cancel = true where id = p_id;
        return 'asked';
    end if;
    delete from onceward.work where id = p_id;
    perform onceward.record_attempts(array[row(
        p_id, v.organization_id, v.attempts + 1, v.kind, v.task, 'cancelled', null, clock_timestamp(), clock_timestamp(), null,
        '{"type": "Cancelled", "message": "cancelled before it started"}'
    )::onceward.attempts]);
    if v.bundle is not null then
        perform onceward.leave_bundle(v.bundle);
    end if;
    perform onceward.settled(v.kind, p_id, 'cancelled', v.attempts + 1, null, null);
    return 'cancelled';
end
$$;
