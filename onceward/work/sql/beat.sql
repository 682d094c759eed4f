-- Increment the heartbeat of a worker, or register the worker. Returns the ids of work that operators cancelled.
with beaten as (
    insert into onceward.workers as w (id, name, version, queues, tasks, forms, apps) values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (id) do update set beat = w.beat + 1, beat_at = clock_timestamp(), queues = excluded.queues
    returning beat
)
select (select array_agg(id) from onceward.work where cancel) as cancelled from beaten
