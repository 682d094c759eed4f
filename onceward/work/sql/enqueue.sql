-- Insert jobs without unique keys in one statement: arguments $1, each with the number $2 of its settings in $5 to $20.
-- A job without a number has the first settings. The same call inserts $3 more jobs after these; $4 is the bundle of all of them.
-- Return the first and the last id. The ids ascend in the order of the input; if some between belong to others, return all.
-- Each job is due a microsecond before the next, so that jobs run in order and a claim can start where the last claim ended.
with settings as materialized (
    select *, case when run_at is null and delay_s > 0 then onceward.now() + make_interval(secs => delay_s)
                   when run_at > onceward.now() then run_at
                   else onceward.now() - make_interval(secs => boost_s) end as due
      from unnest($5::text[], $6::text[], $7::uuid[], $8::bigint[], $9::timestamptz[], $10::float8[], $11::float8[],
                  $12::text[], $13::smallint[], $14::text[], $15::smallint[], $16::boolean[], $17::text[],
                  $18::smallint[], $19::jsonb[], $20::text[]) with ordinality
        as s (task, queue, organization, caused_by, run_at, delay_s, boost_s,
              tags, max_attempts, lane, cap, ordered, parent, parent_cap, context, fair_key, number)
), input as materialized (
    select nextval('onceward.ids') as id, i.args, coalesce(i.number, 1) as number, cardinality($1) - i.n + $3 as later
      from unnest($1::text[], $2::int[]) with ordinality as i (args, number, n)
), bodies as (
    insert into onceward.jobs (id, organization_id, task, args, caused_by, tags, context)
    select i.id, s.organization, s.task, i.args::jsonb, s.caused_by, s.tags::text[], s.context
      from input i join settings s using (number)
), rows as (
    insert into onceward.work
        (id, organization_id, kind, task, queue, sort_at, max_attempts, lane, cap, ordered, parent, parent_cap, bundle,
         line)
    select i.id, s.organization, 'job', s.task, s.queue, s.due - i.later * interval '1 microsecond',
           s.max_attempts, s.lane, s.cap, s.ordered, s.parent, s.parent_cap, $4::bigint, onceward.line_of(s.organization, s.fair_key)
      from input i join settings s using (number)
)
select min(id) as first, max(id) as last,
       case when max(id) - min(id) + 1 <> count(*) then (select array_agg(id) from input) end as ids
  from input
