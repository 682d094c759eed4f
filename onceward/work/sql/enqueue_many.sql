-- Insert jobs without unique keys in one statement. Returns ids in the order of the input.
with input as materialized (
    select nextval('onceward.ids') as id, i.*
      from unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::float8[], $6::int[], $7::uuid[], $8::bigint[])
           with ordinality as i (task, args, queue, run_at, delay_s, boost_s, organization_id, caused_by, n)
     order by n
), bodies as (
    insert into onceward.jobs (id, organization_id, task, args, caused_by)
    select id, organization_id, task, args::jsonb, caused_by from input
)
insert into onceward.work (id, organization_id, kind, task, queue, sort_at)
select id, organization_id, 'job', task, queue,
       case when run_at is not null and run_at > onceward.now() then run_at
            when delay_s > 0 then onceward.now() + make_interval(secs => delay_s)
            else onceward.now() - make_interval(secs => boost_s) end
  from input
returning id
