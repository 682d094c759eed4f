-- The clock has moved back from p_seen to p_now: the next send of every limit comes in the same time as before.
create or replace function onceward.move_back_messages(p_now timestamptz, p_seen timestamptz) returns void language sql as $$
    update onceward.send_slots set next_at = next_at - (p_seen - p_now) where next_at > p_now
$$;
