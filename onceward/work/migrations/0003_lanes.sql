-- Claiming by lane: order, exact concurrency, fairness, pause, rate and breaker in one mechanism.

create index work_suspect on onceward.work (queue, sort_at)
    where crashes > 1 and lease is null and dead_reason is null;

create function onceward.claim_lanes(
    p_queue text, p_tasks text[], p_limit int, p_lease bigint, p_worker bigint, p_cursor text, p_suspect boolean,
    out ids bigint[], out last_lane text, out visited int
) language plpgsql as $$
-- Take due work lane by lane, starting after p_cursor: one index probe passes over a lane with any number of rows.
-- Exactness is the unique index on (queue, lane, slot); a claimer that loses the race for a slot leaves that lane alone.
declare
    v_lane text := p_cursor;
    v_wrapped boolean := false;
    v_now timestamptz := onceward.now();
    v_config onceward.lanes;
    v_head record;
    v_row record;
    v_slots smallint[];
    v_cap int;
    v_take int;
    v_here bigint[];
begin
    ids := '{}';
    visited := 0;
    last_lane := p_cursor;
    while cardinality(ids) < p_limit and visited < 500 loop
        select w.lane, w.cap, coalesce(w.ordered, false) as ordered into v_head
          from onceward.work w
         where w.queue = p_queue and w.lane > v_lane and w.lease is null and w.dead_reason is null
         order by w.lane, w.id limit 1;
        if not found then
            exit when v_wrapped or p_cursor = '';
            v_wrapped := true;
            v_lane := '';
            continue;
        end if;
        v_lane := v_head.lane;
        exit when v_wrapped and v_lane > p_cursor;
        visited := visited + 1;
        last_lane := v_lane;

        select * into v_config from onceward.lanes l where l.queue = p_queue and l.lane = v_lane for update skip locked;
        if not found and exists (select from onceward.lanes l where l.queue = p_queue and l.lane = v_lane) then
            continue;   -- another claimer is at it
        end if;
        continue when v_config.paused_at is not null
                   or v_config.open_until > clock_timestamp() or v_config.next_at > clock_timestamp();

        v_take := p_limit - cardinality(ids);
        if v_config.rate_per_s is not null or v_head.ordered or v_config.failures > 0 then
            v_take := 1;   -- a rate, an order, or a breaker that tries whether it holds
        else
            v_take := least(v_take, 4 * coalesce(v_config.weight, 1));   -- then it is the next lane's turn
        end if;
        v_cap := case when v_head.ordered then 1 else coalesce(v_config.cap, v_head.cap) end;
        if v_cap is not null then
            select array_agg(s.n) into v_slots from generate_series(1, v_cap) s(n)
             where not exists (
                 select from onceward.work w where w.queue = p_queue and w.lane = v_lane and w.slot = s.n);
            continue when v_slots is null;
            v_take := least(v_take, cardinality(v_slots));
        end if;

        v_here := '{}';
        begin
            for v_row in
                select w.id, w.parent, w.parent_cap, w.sort_at, w.task, w.crashes
                  from onceward.work w
                 where w.queue = p_queue and w.lane = v_lane and w.lease is null and w.dead_reason is null
                   and (v_head.ordered or w.sort_at <= v_now)
                 order by w.id limit v_take for update skip locked
            loop
                exit when v_row.sort_at > v_now;                     -- an ordered lane waits for its head
                exit when v_head.ordered and exists (                -- an earlier one is held, or being taken
                    select from onceward.work w
                     where w.queue = p_queue and w.lane = v_lane and w.id < v_row.id and w.dead_reason is null);
                continue when not v_row.task = any(p_tasks);
                continue when v_row.crashes > 1 and not p_suspect;
                update onceward.work w
                   set lease = p_lease, claimed_at = clock_timestamp(),
                       slot = case when v_cap is not null then v_slots[1] end,
                       parent_slot = free.slot
                  from (select case when v_row.parent is not null then (
                            select s.n from generate_series(1, v_row.parent_cap) s(n)
                             where not exists (
                                 select from onceward.work p
                                  where p.queue = p_queue and p.parent = v_row.parent and p.parent_slot = s.n)
                             limit 1) end as slot) free
                 where w.id = v_row.id and (v_row.parent is null or free.slot is not null);
                continue when not found;                             -- the parent is full
                v_slots := v_slots[2:];
                v_here := v_here || v_row.id;
                p_suspect := p_suspect and v_row.crashes < 2;        -- suspects run one at a time
            end loop;
        exception when unique_violation then
            continue;
        end;
        if v_config.rate_per_s is not null and cardinality(v_here) > 0 then
            update onceward.lanes l
               set next_at = greatest(coalesce(l.next_at, clock_timestamp()), clock_timestamp())
                             + make_interval(secs => 1 / l.rate_per_s)
             where l.queue = p_queue and l.lane = v_lane;
        end if;
        ids := ids || v_here;
    end loop;
    if cardinality(ids) > 0 then
        insert into onceward.claims (lease, worker, ids) values (p_lease, p_worker, claim_lanes.ids);
    end if;
end
$$;
