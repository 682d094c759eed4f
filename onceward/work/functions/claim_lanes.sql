-- Claim due work lane by lane. One index probe skips a lane, however many rows the lane has.
-- With p_fair, owners take turns: an owner is an organization, or a fair key of work without one (onceward.owner_of). The turns begin after
-- the owner of p_line, or with that owner if it may still take p_left rows. In a turn, an owner gets up to 16 rows times its weight (fewer
-- if the claim is small), lane by lane from its mark on. When every owner had its turn, those that have more lanes go on with the rest
-- of the room. Owners that missed their turn because others had taken all slots of a lane come first (p_missed).
-- Without p_fair, the claim visits all lanes in the order of line and name after (p_line, p_lane); with p_only, those of this owner.
-- onceward/work/lane_turns.py chooses.
-- The unique index on (queue, lane, slot) makes caps exact: a claimer that loses the race for a slot leaves the lane alone.
-- Without due work the function returns one row with a null id. The column `claim` of the first row tells about the claim: `visited`
-- lanes; `resume_s` until a skipped lane may continue; whether work outside lanes is due (`plain`); where the next claim begins. A paused
-- queue has no lanes, and all lanes of a paused source are skipped with one probe.
-- The function locks rows lane by lane and updates them together at the end, because every update opens all indexes.
-- From an ordered lane it claims one row, or a run of rows if the tasks of all of them are in p_together: the caller runs them one after
-- the other, and `follows` is the row before each. The rows of a run have the slots 1, 2, 3 and so on.
create or replace function onceward.claim_lanes(
    p_queue text, p_tasks text[], p_limit int, p_lease bigint, p_worker bigint, p_suspect boolean, p_together text[], p_fair boolean,
    p_line bigint, p_lane text, p_left int, p_mark_lines bigint[], p_mark_lanes text[], p_missed_lines bigint[], p_missed_lanes text[],
    p_only bigint default null
) returns table (
    id bigint, kind text, task text, organization_id uuid, attempts smallint, crashes smallint, max_attempts smallint,
    bundle bigint, lane text, args jsonb, caused_by bigint, tags text[], context jsonb, line bigint, follows bigint, claim jsonb
) language plpgsql
    -- One plan for a table of any size: planning each probe again cost as much as everything else.
    set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
    v_at_line bigint := p_line;      -- the search for the next lane goes on after this line and lane
    v_at_lane text := p_lane;
    v_next record;                   -- the next lane: its row that is due first
    v_exact boolean;                 -- it is one that was named, not the next one of the search
    v_owner bigint;                  -- whose turn it is; null: the next owner has to be found
    v_next_owner bigint;
    v_walks boolean := true;         -- the search has not met every owner yet
    v_wrapped boolean := false;
    v_start constant bigint := onceward.owner_of(p_line);
    v_base constant int := case when p_fair then least(16, greatest(1, p_limit / 8)) else p_limit end;
    v_quota int := 0;                -- how many rows the owner may take, and up to which number of visits
    v_until int := 0;
    v_weighed boolean := false;      -- its weight is in the quota
    v_is_last boolean;
    v_first bigint;
    v_claim jsonb;
    v_from_mark boolean := false;    -- its turn began in the middle of its lanes and has found nothing yet
    v_taken int := 0;
    v_charged boolean := false;      -- the last visit was part of a turn
    v_served bigint;                 -- the line that was served last in the order of owners
    v_marked bigint[];               -- the owners of p_mark_lines that were not visited
    v_mark int;
    v_missed int := 0;               -- how many of p_missed_lines were visited
    v_still_lines bigint[] := '{}';
    v_still_lanes text[] := '{}';
    v_more_lines bigint[] := '{}';   -- owners that had their turn and have more: after this lane, or in this lane
    v_more_lanes text[] := '{}';
    v_more_again boolean[] := '{}';
    v_more int := 0;                 -- how many of them went on
    v_again boolean := false;
    v_rich_line bigint;              -- the last lane of the owner of which the claim took less than it has
    v_rich_lane text;
    v_shared text[] := '{}';         -- lanes from which this claim has taken something, without ordered ones
    v_seen boolean;                  -- the visited lane is one of them
    v_is_missed boolean := false;    -- the visit is one of p_missed
    v_is_full boolean := false;      -- others have taken what the visited lane may run
    v_met bigint;                    -- the line that was visited last in the order of owners
    v_left int := 0;                 -- what the owner of last_line may still take
    v_line bigint;
    v_lane text;
    v_now timestamptz := onceward.now();
    v_clock timestamptz := clock_timestamp();
    v_is_ordered boolean;
    v_config onceward.lanes;
    v_row record;
    v_slots smallint[];
    v_cap int;
    v_take int;
    v_here bigint[];
    v_held bigint;         -- the first row of an ordered lane that has a slot
    v_run bigint[];        -- the rows after the first one of an ordered lane that are claimed with it
    v_plain boolean;       -- no row has a parent or is a suspect, so no check row by row is needed
    v_ids bigint[] := '{}';          -- already claimed
    v_later bigint[] := '{}';        -- locked, to be claimed at the end with the slots below
    v_later_slots smallint[] := '{}';
    v_later_lanes text[] := '{}';
    v_visited int := 0;
    v_resume timestamptz;
    v_open boolean := not exists (
        select from onceward.queues q where q.name = p_queue and (q.paused_at is not null or q.parked_until > clock_timestamp()));
    v_paused text[] := array(select 'source:' || p.source from onceward.paused_sources p);
begin
    if p_fair then
        v_marked := array(select onceward.owner_of(m.line) from unnest(p_mark_lines) with ordinality m (line, n) order by m.n);
        if p_left > 0 then
            v_owner := v_start;
            v_quota := p_left;
            v_until := 32;
            v_weighed := true;
            v_from_mark := true;
        else
            v_at_line := onceward.end_of_owner(v_start);
            v_at_lane := '';
        end if;
    end if;
    loop
        if cardinality(v_ids) + cardinality(v_later) > v_taken then
            if v_charged then
                v_quota := v_quota - (cardinality(v_ids) + cardinality(v_later) - v_taken);
                v_from_mark := false;
                v_served := case when v_walks then v_line else v_served end;
            end if;
            v_taken := cardinality(v_ids) + cardinality(v_later);
        end if;
        if v_is_full then
            if p_fair and not v_again and cardinality(v_still_lines) < 64 and not v_line = any(v_still_lines)
               and (v_is_missed or not v_line = any(p_missed_lines)) then
                v_still_lines := v_still_lines || v_line;
                v_still_lanes := v_still_lanes || v_lane;
            end if;
            v_is_full := false;
        end if;
        exit when not v_open or v_taken >= p_limit or v_visited >= 500;
        v_is_missed := false;
        v_exact := false;
        v_again := false;
        v_charged := p_fair;
        if v_missed < cardinality(p_missed_lines) then
            v_missed := v_missed + 1;
            v_exact := true;
            v_is_missed := true;
            v_charged := false;
            v_line := p_missed_lines[v_missed];
            v_lane := p_missed_lanes[v_missed];
        elsif p_fair and v_owner is null and not v_walks then
            if v_rich_lane is not null then        -- the lane that was visited again has still more
                v_more_lines := v_more_lines || v_rich_line;
                v_more_lanes := v_more_lanes || v_rich_lane;
                v_more_again := v_more_again || true;
                v_rich_lane := null;
            end if;
            exit when v_more >= cardinality(v_more_lines);
            v_more := v_more + 1;
            v_line := v_more_lines[v_more];
            v_lane := v_more_lanes[v_more];
            if v_more_again[v_more] then
                v_exact := true;
                v_again := true;
            else
                v_owner := onceward.owner_of(v_line);
                v_is_last := v_more = cardinality(v_more_lines);       -- nobody else has more
                v_quota := case when v_is_last then p_limit else v_base end;
                v_until := v_visited + case when v_is_last then 500 else 32 end;
                v_weighed := v_is_last;
                v_at_line := v_line;
                v_at_lane := v_lane;
                continue;
            end if;
        end if;
        if v_exact then
            select w.line, w.lane, w.ordered, w.cap, w.sort_at, w.organization_id,
                   exists (select from onceward.lanes l where l.queue = p_queue and l.lane = w.lane) as configured
              into v_next from onceward.work w
             where w.queue = p_queue and w.line = v_line and w.lane = v_lane and w.lease is null and w.dead_reason is null
             order by w.sort_at, w.id limit 1;
            continue when not found or v_next.ordered;
        else
            select w.line, w.lane, w.ordered, w.cap, w.sort_at, w.organization_id,
                   exists (select from onceward.lanes l where l.queue = p_queue and l.lane = w.lane) as configured
              into v_next from onceward.work w
             where w.queue = p_queue and (w.line, w.lane) > (v_at_line, v_at_lane) and w.lane is not null
               and w.lease is null and w.dead_reason is null
             order by w.line, w.lane, w.sort_at, w.id limit 1;
            exit when not p_fair and (not found or onceward.owner_of(v_next.line) <> p_only);
            v_next_owner := case when found then onceward.owner_of(v_next.line) end;
            if v_owner is not null and v_next_owner is distinct from v_owner then    -- its lanes end here
                if v_from_mark then
                    v_from_mark := false;
                    v_at_line := v_owner;
                    v_at_lane := '';
                    continue;
                end if;
                v_owner := null;
                if v_rich_lane is not null then
                    v_more_lines := v_more_lines || v_rich_line;
                    v_more_lanes := v_more_lanes || v_rich_lane;
                    v_more_again := v_more_again || true;
                    v_rich_lane := null;
                end if;
                continue when not v_walks;
            end if;
            if v_owner is null and p_fair then
                if v_next_owner is null then
                    v_walks := not v_wrapped;
                    v_wrapped := true;
                    v_at_line := -9223372036854775808;
                    v_at_lane := '';
                    continue;
                elsif v_wrapped and (v_next_owner > v_start or v_next_owner = v_start and p_left > 0) then
                    v_walks := false;
                    continue;
                end if;
                v_owner := v_next_owner;
                v_quota := v_base;
                v_until := v_visited + 32;
                v_weighed := false;
                v_mark := array_position(v_marked, v_owner);
                if v_mark is not null then
                    v_marked[v_mark] := null;
                    if (p_mark_lines[v_mark], p_mark_lanes[v_mark] collate "C") >= (v_next.line, v_next.lane) then
                        v_at_line := p_mark_lines[v_mark];
                        v_at_lane := p_mark_lanes[v_mark];
                        v_from_mark := true;
                        continue;
                    end if;
                end if;
            end if;
            if p_fair and v_quota <= 0 and not v_weighed then
                if v_next.organization_id is not null then
                    v_quota := v_quota + v_base * (coalesce((
                        select o.weight from onceward.organizations o where o.organization_id = v_next.organization_id), 1) - 1);
                end if;
                v_weighed := true;
            end if;
            if p_fair and (v_quota <= 0 or v_visited >= v_until) then    -- the next owner's turn
                v_more_lines := v_more_lines || v_at_line;
                v_more_lanes := v_more_lanes || v_at_lane;
                v_more_again := v_more_again || false;
                v_at_line := onceward.end_of_owner(v_owner);
                v_at_lane := '';
                v_owner := null;
                v_rich_lane := null;
                continue;
            end if;
            v_at_line := v_next.line;
            v_at_lane := v_next.lane;
        end if;
        v_line := v_next.line;
        v_lane := v_next.lane;
        v_cap := v_next.cap;
        v_is_ordered := coalesce(v_next.ordered, false);
        v_seen := not v_is_ordered and v_lane = any(v_shared);
        if v_walks and not v_exact then
            v_met := v_line;
        end if;
        v_visited := v_visited + 1;
        if cardinality(v_paused) > 0 and left(v_lane, 43) = any(v_paused) then
            -- The lanes of a source are `source:<id>` and `source:<id>:<subject>`. In the collation "C", `;` follows `:`.
            v_at_lane := case when v_exact then v_at_lane else left(v_lane, 43) || ';' end;
            continue;
        end if;
        if not v_is_ordered and v_next.sort_at > v_now then
            v_resume := least(v_resume, v_clock + (v_next.sort_at - v_now));
            continue;
        end if;

        v_config := null;
        if v_next.configured then
            select * into v_config from onceward.lanes l where l.queue = p_queue and l.lane = v_lane for update skip locked;
            continue when not found;               -- another claimer works on this lane
            continue when v_config.paused_at is not null;
            if v_config.open_until > clock_timestamp() or v_config.next_at > clock_timestamp() then
                v_resume := least(v_resume, greatest(v_config.open_until, v_config.next_at));
                v_is_full := v_is_missed or v_seen;
                continue;
            end if;
        end if;

        v_take := p_limit - v_taken;
        if v_config.rate_per_s is not null or v_is_ordered or v_config.failures > 0 then
            v_take := 1;   -- a rate, an order, or an open breaker that allows one trial
        else
            v_take := least(v_take, case when v_again then v_base * coalesce((
                    select o.weight from onceward.organizations o where o.organization_id = v_next.organization_id), 1)
                else least(8 * coalesce(v_config.weight, 1), v_base) end);   -- then the next lane gets its turn
        end if;
        v_cap := case when v_is_ordered or v_config.open_until is not null then 1   -- open breaker: one trial
                      else coalesce(v_config.cap, v_cap) end;
        if v_is_ordered then
            continue when exists (
                select from onceward.work w where w.queue = p_queue and w.lane = v_lane and w.slot = 1);
            v_slots := '{1}';
        elsif v_cap is not null then
            v_slots := array(
                select s.n from generate_series(1, v_cap) s(n)
                 where s.n not in (
                     select w.slot::int from onceward.work w
                      where w.queue = p_queue and w.lane = v_lane and w.slot is not null)
                   and (not v_seen or s.n not in (
                     select t.slot::int from unnest(v_later_lanes, v_later_slots) t (lane, slot) where t.lane = v_lane))
                 limit v_take);
            v_is_full := cardinality(v_slots) = 0 and (v_is_missed or v_seen);
            continue when cardinality(v_slots) = 0;
            v_take := cardinality(v_slots);
        end if;

        v_here := '{}';
        if v_is_ordered then
            select w.id, w.line, w.task, w.crashes, w.sort_at, w.parent is null as plain,
                   w.task = any(p_together) and w.attempts = 0 and w.crashes = 0 and w.parent is null and w.unique_key is null as leads
              into v_row
              from onceward.work w
             where w.queue = p_queue and w.lane = v_lane and w.ordered and w.lease is null and w.dead_reason is null
             order by w.id limit 1 for update skip locked;
            -- In a lane of several owners it is the turn of the first row's owner.
            continue when not found or v_row.line <> v_line or not v_row.task = any(p_tasks) or (v_row.crashes > 1 and not p_suspect);
            if v_row.sort_at > v_now then          -- an ordered lane waits for its first row
                v_resume := least(v_resume, v_clock + (v_row.sort_at - v_now));
                continue;
            end if;
            v_held := (select min(w.id) from onceward.work w where w.queue = p_queue and w.lane = v_lane and w.slot is not null);
            continue when v_held < v_row.id or exists (     -- an earlier row is held or is being claimed
                select from onceward.work w
                 where w.queue = p_queue and w.lane = v_lane and w.ordered and w.lease is null
                   and w.dead_reason is null and w.id < v_row.id);
            v_here := array[v_row.id];
            v_plain := v_row.plain and v_row.crashes < 2;
            v_take := least(p_limit - v_taken, 16) - 1;
            if v_row.leads and v_take > 0 and v_config.rate_per_s is null and coalesce(v_config.failures, 0) = 0
               and v_config.open_until is null
               -- A later row that is still held, until its worker gives it back, would be passed by.
               and v_held is null then
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
                     where w.queue = p_queue and w.line = v_line and w.lane = v_lane and w.ordered is not true
                       and w.lease is null and w.dead_reason is null
                       and w.sort_at <= v_now and w.task = any(p_tasks) and (w.crashes < 2 or p_suspect)
                       and (not v_seen or w.id <> all(v_later))
                     order by w.sort_at, w.id limit v_take for update skip locked) r;
        end if;
        continue when cardinality(v_here) = 0;
        if p_fair and not v_is_ordered then
            if not v_seen then
                v_shared := v_shared || v_lane;
            end if;
            if cardinality(v_here) = v_take and v_config.rate_per_s is null and coalesce(v_config.failures, 0) = 0
               and not v_is_missed then
                v_rich_line := v_line;
                v_rich_lane := v_lane;
            end if;
        end if;
        if v_plain then
            v_later := v_later || v_here;
            v_later_lanes := v_later_lanes || case when cardinality(v_here) = 1 then array[v_lane]
                                                   else array_fill(v_lane, array[cardinality(v_here)]) end;
            v_later_slots := v_later_slots || case when v_cap is null then array_fill(null::smallint, array[cardinality(v_here)])
                                                   else v_slots[:cardinality(v_here)] end;
        else
            begin
                select h.held, p_suspect and not h.suspect into v_here, p_suspect
                  from onceward.hold_in_lane(v_here, case when v_cap is null then null else v_slots end, p_queue, p_lease, p_suspect) h;
            exception when unique_violation or lock_not_available then
                continue;
            end;
            v_is_full := cardinality(v_here) = 0;      -- its parent has no free slot
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
    if cardinality(v_shared) > 1 then
        -- In the order of lanes: then two claimers wait for each other's slots in one direction only. Two claimers never want the same
        -- slot of an ordered lane, because one of them has locked its first row.
        select array_agg(t.id order by t.n), array_agg(t.slot order by t.n) into v_later, v_later_slots
          from (select t.id, t.slot, row_number() over (order by t.lane collate "C", t.slot, t.n) as n
                  from unnest(v_later, v_later_slots, v_later_lanes) with ordinality t (id, slot, lane, n)) t;
    end if;
    v_ids := v_ids || onceward.hold_together(coalesce(v_later, '{}'), v_later_slots, p_lease);
    if p_fair and v_walks and v_owner is not null then     -- the claim was full in the middle of a turn, or has visited enough
        if v_quota <= 0 and not v_weighed and p_limit < 128 then
            v_quota := v_quota + v_base * (coalesce((
                select o.weight from onceward.organizations o where o.organization_id = v_next.organization_id), 1) - 1);
        end if;
        v_left := greatest(0, v_quota);
    end if;
    if cardinality(v_ids) > 0 and p_worker is not null then   -- null: a program in another language (onceward.external_claims)
        insert into onceward.claims (lease, worker, ids) values (p_lease, p_worker, v_ids);
    end if;
    if v_owner is not null then
        v_more_lines := v_more_lines || v_at_line;
        v_more_lanes := v_more_lanes || v_at_lane;
        v_more_again := v_more_again || false;
    end if;
    if v_missed < cardinality(p_missed_lines) then
        v_still_lines := v_still_lines || p_missed_lines[v_missed + 1:];
        v_still_lanes := v_still_lanes || p_missed_lanes[v_missed + 1:];
    end if;
    v_first := (select min(i) from unnest(v_ids) i);
    v_claim := jsonb_build_object(
        'visited', v_visited, 'resume_s', extract(epoch from v_resume - clock_timestamp())::float8,
        'plain', v_open and (exists (select from onceward.work d
                                      where d.queue = p_queue and d.line = 0 and d.lease is null and d.lane is null
                                        and d.dead_reason is null and d.sort_at <= v_now)
                          or exists (select from onceward.work d
                                      where d.queue = p_queue and d.line <> 0 and d.lease is null and d.lane is null
                                        and d.dead_reason is null and d.sort_at <= v_now)),
        'at', jsonb_build_array(
            case when p_fair and v_left = 0 then coalesce(v_served, v_met, p_line) else v_at_line end, v_at_lane),
        'left', v_left,
        'marks', (select jsonb_agg(jsonb_build_array(k.line, k.lane))
                    from (select k.line, k.lane from unnest(p_mark_lines, p_mark_lanes, v_marked) k (line, lane, owner)
                           where k.owner is not null
                          union all
                          select k.line, k.lane
                            from unnest(v_more_lines, v_more_lanes, v_more_again) with ordinality k (line, lane, again, n)
                           where k.n > v_more and not k.again) k),
        'missed', (select jsonb_agg(jsonb_build_array(k.line, k.lane)) from unnest(v_still_lines, v_still_lanes) k (line, lane)));
    return query
        select w.id, w.kind, w.task, w.organization_id, w.attempts, w.crashes, w.max_attempts, w.bundle, w.lane,
               j.args, j.caused_by, j.tags, j.context, w.line,
               case when w.ordered then lag(w.id) over (partition by w.lane, w.ordered order by w.id) end,
               case when w.id is not distinct from v_first then v_claim end
          from (select) one
          left join onceward.work w on w.id = any(v_ids) and w.lease = p_lease
          left join onceward.jobs j on j.id = w.id and w.kind = 'job'
         order by w.id;
end
$$;
