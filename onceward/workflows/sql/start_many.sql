-- Start workflows without keys: two inserts, one statement, ids in the order of the input.
with input as materialized (
    select nextval('onceward.ids') as id, i.*
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::float8[], $7::uuid[], $8::bigint[])
           with ordinality as i (name, args, version, attributes, run_at, delay_s, organization_id, caused_by, n)
     order by n
), bodies as (
    insert into onceward.workflows (id, organization_id, name, version, args, attributes, caused_by)
    select id, organization_id, name, version, args::json, attributes::jsonb, caused_by from input
)
insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at)
select id, organization_id, onceward.line_of(organization_id, null), 'workflow', 'workflow:' || name, 'workflows',
       case when run_at is not null then run_at else onceward.now() + make_interval(secs => delay_s) end
  from input
returning id
