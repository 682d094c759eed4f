-- Insert one job with any options, or return the job that holds the same unique key.
select r.id, r.duplicate
  from onceward.enqueue_row($1, $2::jsonb, $3,
           coalesce($4::timestamptz, case when $5::float8 > 0 then onceward.now() + make_interval(secs => $5) end),
           $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16::text[], $17, $18, $19) r
