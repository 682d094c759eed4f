-- Move the time of an erasure to this moment: until the commit that recorded it, other transactions could begin and read the person.
-- While a test has stopped the clock, it is that time.
update onceward.erasures
   set erased_at = greatest(erased_at, case when onceward.now() = now() then clock_timestamp() else onceward.now() end)
 where person_hash = any($1::text[]) and organization_id is not distinct from $2::uuid
