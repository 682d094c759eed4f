-- Delete those of the events $2 that are older than $1 and whose deliveries have ended, with deliveries and attempts. An event with a
-- key keeps its row without the body, as protection against duplicates. Return the ids of the others.
-- The deliveries are locked first: one that an operator sends again at this moment is unfinished by then.
with sent as materialized (
    select d.id, d.caused_by, d.status in ('pending', 'dead_letter') as waits
      from onceward.deliveries d where d.caused_by = any($2::bigint[]) order by d.id for update
), due as materialized (
    select p.id, p.key from onceward.published p
     where p.id = any($2::bigint[]) and p.created_at < onceward.now() - $1::interval
       and not exists (select from sent where sent.caused_by = p.id and sent.waits)
       for update
), gone as (
    delete from onceward.deliveries d using due where d.caused_by = due.id returning d.id
), spent as (
    delete from onceward.attempts a using gone where a.work_id = gone.id
), stripped as (
    update onceward.published p set body = null from due where p.id = due.id and due.key is not null
), dropped as (
    delete from onceward.published p using due where p.id = due.id and due.key is null
)
select p.id from onceward.published p where p.id = any($2::bigint[]) and not exists (select from due where due.id = p.id)
