-- Note how far a scan is after a turn. If it has ended ($2), the person is forgotten.
update onceward.erasure_scans
   set eraser = $3, last = $4, examined = $5, found = $6, turned_at = clock_timestamp(),
       finished_at = case when $2 then onceward.now() end,
       people = case when $2 then null else people end, reason = case when $2 then null else reason end,
       also_known_as = case when $2 then null else $7::text[] end
 where id = $1
