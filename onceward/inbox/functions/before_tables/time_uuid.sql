-- Return a UUID of version 7: random, but ordered by time, so that new rows go to the end of the index.
create or replace function onceward.time_uuid() returns uuid
    language sql volatile parallel safe as $$
select encode(set_byte(stamped, 6, (get_byte(stamped, 6) & 15) | 112), 'hex')::uuid
  from (select substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
               || substring(uuid_send(gen_random_uuid()) from 7) as stamped) made
$$;
