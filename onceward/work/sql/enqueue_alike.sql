-- Insert jobs that differ in their arguments ($1) only. The same call inserts $9 more jobs after these.
-- Each job is due a microsecond before the next, so that jobs run in order and a claim can start where the last claim ended.
with input as materialized (
    select nextval('onceward.ids') as id, i.args, i.n
      from unnest($1::text[]) with ordinality as i (args, n)
     order by i.n
), bodies as (
    insert into onceward.jobs (id, organization_id, task, args, caused_by, tags)
    select id, $2::uuid, $3, args::jsonb, $4::bigint, $10::text[] from input
)
insert into onceward.work
    (id, organization_id, kind, task, queue, sort_at, max_attempts, lane, cap, ordered, parent, parent_cap)
select id, $2::uuid, 'job', $3, $5,
       case when $6::timestamptz > onceward.now() then $6::timestamptz
            when $7::float8 > 0 then onceward.now() + make_interval(secs => $7::float8)
            else onceward.now() - make_interval(secs => $8::float8) end
       - (cardinality($1) - n + $9) * interval '1 microsecond',
       $11::smallint, $12, $13::smallint, $14::boolean, $15, $16::smallint
  from input
returning id
