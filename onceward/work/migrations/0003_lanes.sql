-- Claiming by lane: order, exact concurrency, fairness, pause, rate and breaker in one mechanism.

create index work_suspect on onceward.work (queue, sort_at)
    where crashes > 1 and lease is null and dead_reason is null;

create function onceward.claim_lanes(
    p_queue text, p_tasks text[], p_limit int, p_lease bigint, p_worker bigint, p_cursor text, p_suspect boolean
) returns table (
    id bigint, kind text, task text, organization_id uuid, attempts smallint, crashes smallint, max_attempts smallint,
    bundle bigint, lane text, sort_at timestamptz, args jsonb, caused_by bigint, tags text[],
    last_lane text, visited int, resume_s float8
) language plpgsql as $$
-- Take due work lane by lane, starting after p_cursor: one index probe passes over a lane with any number of rows.
-- Exactness is the unique index on (queue, lane, slot); a claimer that loses the race for a slot leaves that lane alone.
-- Without work there is one row, with id null. resume_s: when a lane that had to be passed over may go on.
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
    v_ids bigint[] := '{}';
    v_last text := p_cursor;
    v_visited int := 0;
    v_resume timestamptz;
begin
    while cardinality(v_ids) < p_limit and v_visited < 500 loop
        if v_look_ordered then
            select w.lane, w.cap into v_ordered from onceward.work w
             where w.queue = p_queue and w.lane > v_lane and w.ordered and w.lease is null and w.dead_reason is null
             order by w.lane, w.id limit 1;
            v_look_ordered := false;
        end if;
        if v_look_due then
            select w.lane, w.cap, w.sort_at into v_due from onceward.work w
             where w.queue = p_queue and w.lane > v_lane and w.ordered is not true and w.lease is null and w.dead_reason is null
             order by w.lane, w.sort_at, w.id limit 1;
            v_look_due := false;
        end if;
        if v_ordered.lane is null and v_due.lane is null then
            exit when v_wrapped or p_cursor = '';
            v_wrapped := true;
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

        select * into v_config from onceward.lanes l where l.queue = p_queue and l.lane = v_lane;
        if found then
            select * into v_config from onceward.lanes l where l.queue = p_queue and l.lane = v_lane for update skip locked;
            continue when not found;               -- another claimer is at it
            continue when v_config.paused_at is not null;
            if v_config.open_until > clock_timestamp() or v_config.next_at > clock_timestamp() then
                v_resume := least(v_resume, greatest(v_config.open_until, v_config.next_at));
                continue;
            end if;
        end if;

        v_take := p_limit - cardinality(v_ids);
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
                 where not exists (
                     select from onceward.work w where w.queue = p_queue and w.lane = v_lane and w.slot = s.n)
                 limit v_take);
            continue when cardinality(v_slots) = 0;
            v_take := cardinality(v_slots);
        end if;

        v_here := '{}';
        begin
            if v_is_ordered then
                select w.id, w.task, w.crashes, w.sort_at, w.parent, w.parent_cap into v_row
                  from onceward.work w
                 where w.queue = p_queue and w.lane = v_lane and w.ordered and w.lease is null and w.dead_reason is null
                 order by w.id limit 1 for update skip locked;
                continue when not found or not v_row.task = any(p_tasks) or (v_row.crashes > 1 and not p_suspect);
                if v_row.sort_at > v_now then      -- an ordered lane waits for its head
                    v_resume := least(v_resume, v_clock + (v_row.sort_at - v_now));
                    continue;
                end if;
                continue when exists (             -- an earlier one is held, or being taken
                    select from onceward.work w
                     where w.queue = p_queue and w.lane = v_lane and w.slot is not null and w.id < v_row.id)
                  or exists (
                    select from onceward.work w
                     where w.queue = p_queue and w.lane = v_lane and w.ordered and w.lease is null
                       and w.dead_reason is null and w.id < v_row.id);
                v_here := onceward.hold_in_lane(v_here, v_row.id, p_queue, v_row.parent, v_row.parent_cap, p_lease, v_slots[1]);
                p_suspect := p_suspect and v_row.crashes < 2;
            else
                for v_row in
                    select w.id, w.parent, w.parent_cap, w.crashes
                      from onceward.work w
                     where w.queue = p_queue and w.lane = v_lane and w.ordered is not true
                       and w.lease is null and w.dead_reason is null
                       and w.sort_at <= v_now and w.task = any(p_tasks) and (w.crashes < 2 or p_suspect)
                     order by w.sort_at, w.id limit v_take for update skip locked
                loop
                    continue when v_row.crashes > 1 and not p_suspect;
                    if v_row.parent is null then
                        update onceward.work w
                           set lease = p_lease, claimed_at = clock_timestamp(), slot = v_slots[cardinality(v_here) + 1]
                         where w.id = v_row.id;
                        v_here := v_here || v_row.id;
                    else
                        v_here := onceward.hold_in_lane(v_here, v_row.id, p_queue, v_row.parent, v_row.parent_cap, p_lease,
                                                        v_slots[cardinality(v_here) + 1]);
                    end if;
                    p_suspect := p_suspect and v_row.crashes < 2;        -- suspects run one at a time
                end loop;
            end if;
        exception when unique_violation then
            continue;
        end;
        if v_config.rate_per_s is not null and cardinality(v_here) > 0 then
            update onceward.lanes l
               set next_at = greatest(coalesce(l.next_at, clock_timestamp()), clock_timestamp())
                             + make_interval(secs => 1 / l.rate_per_s)
             where l.queue = p_queue and l.lane = v_lane
            returning least(v_resume, l.next_at) into v_resume;
        end if;
        v_ids := v_ids || v_here;
    end loop;
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

create function onceward.hold_in_lane(
    p_here bigint[], p_id bigint, p_queue text, p_parent text, p_parent_cap int, p_lease bigint, p_slot int
) returns bigint[] language plpgsql as $$
-- Take one row with its slot, and a slot of its parent where it has one; a full parent leaves it where it is.
declare
    v_parent_slot int;
begin
    if p_parent is not null then
        select s.n into v_parent_slot from generate_series(1, p_parent_cap) s(n)
         where not exists (
             select from onceward.work p
              where p.queue = p_queue and p.parent = p_parent and p.parent_slot = s.n)
         limit 1;
        if v_parent_slot is null then
            return p_here;
        end if;
    end if;
    update onceward.work w
       set lease = p_lease, claimed_at = clock_timestamp(), slot = p_slot, parent_slot = v_parent_slot
     where w.id = p_id;
    return p_here || p_id;
end
$$;
