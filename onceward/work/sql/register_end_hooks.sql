-- Keep the tasks that have an on_end hook in this process. A hook that no live worker knows any more is forgotten.
with known as (
    insert into onceward.end_hooks as h (task, queue)
    select * from unnest($1::text[], $2::text[]) on conflict (task) do update set queue = excluded.queue
)
delete from onceward.end_hooks h
 where h.task = any($3::text[])
   and not exists (select from onceward.workers w where h.task || '#on_end' = any(w.tasks))
