-- The clock has moved back from p_seen to p_now: move what was due, or would have been within a minute, by as much. Later times may be
-- times of day that somebody asked for: they stay.
create or replace function onceward.move_back_work(p_now timestamptz, p_seen timestamptz) returns void language plpgsql as $$
begin
    update onceward.work w set sort_at = w.sort_at - (p_seen - p_now)
      from (select m.id from onceward.work m
             where m.dead_reason is null and m.sort_at > p_now and m.sort_at <= p_seen + interval '1 minute'
             order by m.id for update) moved
     where w.id = moved.id;
    update onceward.lanes set next_at = next_at - (p_seen - p_now) where next_at > p_now;
    update onceward.lanes set open_until = open_until - (p_seen - p_now) where open_until > p_now;
    update onceward.queues set parked_until = parked_until - (p_seen - p_now) where parked_until > p_now;
end
$$;
