-- Record that $2 more rows of a run were looked at, of which $3 succeeded. $4 are the others; the first $5 of a run are kept.
update onceward.desk_runs
   set done = done + $2, succeeded = succeeded + $3, stopped = null,
       problems = case when jsonb_array_length(problems) < $5 then problems || $4::text::jsonb else problems end,
       ended_at = case when done + $2 >= cardinality(rows) then onceward.now() end
 where id = $1
