-- The clock has moved back from p_seen to p_now: allowances refill in the same time as before.
create or replace function onceward.move_back_limits(p_now timestamptz, p_seen timestamptz) returns void language sql as $$
    update onceward.rates set full_at = full_at - (p_seen - p_now) where full_at > p_now
$$;
