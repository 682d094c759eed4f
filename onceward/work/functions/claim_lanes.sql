-- Claim due work lane by lane, starting after p_cursor. One index probe skips a lane, however many rows the lane has.
-- The unique index on (queue, lane, slot) makes caps exact: a claimer that loses the race for a slot leaves the lane alone.
-- Without due work the function returns one row with a null id. resume_s is the time until a skipped lane may continue; `plain` says
-- whether work outside lanes is due. A paused queue has no lanes, and all lanes of a paused source are skipped with one probe.
-- The function locks rows lane by lane and updates them together at the end, because every update opens all indexes.
-- From an ordered lane it claims one row, or a run of rows if the tasks of all of them are in p_together: the caller runs them one after
-- the other, and `follows` is the row before each. The rows of a run have the slots 1, 2, 3 and so on.
create or replace function onceward.claim_lanes(
    p_queue text, p_tasks text[], p_limit int, p_lease bigint, p_worker bigint, p_cursor text, p_suspect boolean,
    p_together text[] default '{}'
) returns table (
    id bigint, kind text, task text, organization_id uuid, attempts smallint, crashes smallint, max_attempts smallint,
    bundle bigint, lane text, sort_at timestamptz, args jsonb, caused_by bigint, tags text[],
    last_lane text, visited int, resume_s float8, context jsonb, plain boolean, follows bigint
) language plpgsql
    -- One plan for a table of any size: planning each probe again cost as much as everything else.
    set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
    v_lane text := p_cursor;
    v_wrapped boolean := false;
    v_now timestamptz := onceward.now();
    v_clock timestamptz := clock_timestamp();
    v_ordered record;      -- the next ordered lane and the next other lane; each is searched for after it was passed
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
    v_run bigint[];        -- the rows after the first one of an ordered lane that are claimed with it
    v_plain boolean;       -- no row has a parent or is a suspect, so no check row by row is needed
    v_ids bigint[] := '{}';          -- already claimed
    v_later bigint[] := '{}';        -- locked, to be claimed at the end with the slots below
    v_later_slots smallint[] := '{}';
    v_wrapped_at int := 0;           -- how many of them were locked before the search wrapped to the first lane
    v_last text := p_cursor;
    v_visited int := 0;
    v_resume timestamptz;
    v_open boolean := not exists (
        select from onceward.queues q where q.name = p_queue and (q.paused_at is not null or q.parked_until > clock_timestamp()));
    v_paused text[] := array(select 'source:' || p.source from onceward.paused_sources p);
begin
    while v_open and cardinality(v_ids) + cardinality(v_later) < p_limit and v_visited < 500 loop
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
            v_look_due := v_due.lane = v_lane;     -- a lane with both kinds: only the ordered rows this time
        else
            v_lane := v_due.lane;
            v_cap := v_due.cap;
            v_look_due := true;
        end if;
        exit when v_wrapped and v_lane > p_cursor;
        v_visited := v_visited + 1;
        v_last := v_lane;
        if cardinality(v_paused) > 0 and left(v_lane, 43) = any(v_paused) then
            -- The lanes of a source are `source:<id>` and `source:<id>:<subject>`. In the collation "C", `;` follows `:`.
            v_lane := left(v_lane, 43) || ';';
            v_last := v_lane;
            v_look_ordered := true;
            v_look_due := true;
            continue;
        end if;
        if not v_is_ordered and v_due.sort_at > v_now then
            v_resume := least(v_resume, v_clock + (v_due.sort_at - v_now));
            continue;
        end if;

        v_config := null;
        if (v_is_ordered and v_ordered.configured) or (not v_is_ordered and v_due.configured) then
            select * into v_config from onceward.lanes l where l.queue = p_queue and l.lane = v_lane for update skip locked;
            continue when not found;               -- another claimer works on this lane
            continue when v_config.paused_at is not null;
            if v_config.open_until > clock_timestamp() or v_config.next_at > clock_timestamp() then
                v_resume := least(v_resume, greatest(v_config.open_until, v_config.next_at));
                continue;
            end if;
        end if;

        v_take := p_limit - cardinality(v_ids) - cardinality(v_later);
        if v_config.rate_per_s is not null or v_is_ordered or v_config.failures > 0 then
            v_take := 1;   -- a rate, an order, or an open breaker that allows one trial
        else
            v_take := least(v_take, 8 * coalesce(v_config.weight, 1));   -- then the next lane gets its turn
        end if;
        v_cap := case when v_is_ordered or v_config.open_until is not null then 1   -- open breaker: one trial
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
            select w.id, w.task, w.crashes, w.sort_at, w.parent is null as plain,
                   w.task = any(p_together) and w.attempts = 0 and w.crashes = 0 and w.parent is null and w.unique_key is null as leads
              into v_row
              from onceward.work w
             where w.queue = p_queue and w.lane = v_lane and w.ordered and w.lease is null and w.dead_reason is null
             order by w.id limit 1 for update skip locked;
            continue when not found or not v_row.task = any(p_tasks) or (v_row.crashes > 1 and not p_suspect);
            if v_row.sort_at > v_now then          -- an ordered lane waits for its first row
                v_resume := least(v_resume, v_clock + (v_row.sort_at - v_now));
                continue;
            end if;
            continue when exists (                 -- an earlier row is held or is being claimed
                select from onceward.work w
                 where w.queue = p_queue and w.lane = v_lane and w.slot is not null and w.id < v_row.id)
              or exists (
                select from onceward.work w
                 where w.queue = p_queue and w.lane = v_lane and w.ordered and w.lease is null
                   and w.dead_reason is null and w.id < v_row.id);
            v_here := array[v_row.id];
            v_plain := v_row.plain and v_row.crashes < 2;
            v_take := least(p_limit - cardinality(v_ids) - cardinality(v_later), 16) - 1;
            if v_row.leads and v_take > 0 and v_config.rate_per_s is null and coalesce(v_config.failures, 0) = 0
               and v_config.open_until is null
               -- A later row that is still held, until its worker gives it back, would be passed by.
               and not exists (select from onceward.work w where w.queue = p_queue and w.lane = v_lane and w.slot is not null) then
                v_run := array(
                    select c.id from (
                        select w.id, bool_and(w.task = any(p_together) and w.attempts = 0 and w.crashes = 0 and w.sort_at <= v_now
                                              and w.parent is null and w.unique_key is null) over (order by w.id) as fits
                          from onceward.work w
                         where w.queue = p_queue and w.lane = v_lane and w.ordered and w.lease is null and w.dead_reason is null
                           and w.id > v_row.id
                         order by w.id limit v_take) c
                     where c.fits order by c.id);
                perform from onceward.work w
                  where w.id = any(v_run) and w.lease is null and w.dead_reason is null for update skip locked;
                get diagnostics v_take = row_count;
                if v_take > 0 and v_take = cardinality(v_run) then     -- otherwise another session has one of them
                    v_here := v_here || v_run;
                    v_slots := array(select s.n from generate_series(1, v_take + 1) s(n));
                end if;
            end if;
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
    -- In the order of lanes, independent of the cursor: then two claimers wait for each other in one direction only.
    v_ids := v_ids || onceward.hold_together(
        v_later[v_wrapped_at + 1:] || v_later[:v_wrapped_at],
        v_later_slots[v_wrapped_at + 1:] || v_later_slots[:v_wrapped_at], p_lease);
    if cardinality(v_ids) > 0 then
        insert into onceward.claims (lease, worker, ids) values (p_lease, p_worker, v_ids);
    end if;
    return query
        select w.id, w.kind, w.task, w.organization_id, w.attempts, w.crashes, w.max_attempts, w.bundle, w.lane, w.sort_at,
               j.args, j.caused_by, j.tags, v_last, v_visited,
               extract(epoch from v_resume - clock_timestamp())::float8, j.context,
               v_open and (exists (select from onceward.work d
                                    where d.queue = p_queue and d.line = 0 and d.lease is null and d.lane is null
                                      and d.dead_reason is null and d.sort_at <= v_now)
                        or exists (select from onceward.work d
                                    where d.queue = p_queue and d.line <> 0 and d.lease is null and d.lane is null
                                      and d.dead_reason is null and d.sort_at <= v_now)),
               case when w.ordered then lag(w.id) over (partition by w.lane, w.ordered order by w.id) end
          from (select) one
          left join onceward.work w on w.id = any(v_ids) and w.lease = p_lease
          left join onceward.jobs j on j.id = w.id and w.kind = 'job'
         order by w.id;
end
$$;
