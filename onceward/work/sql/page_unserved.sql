-- Return the due work that no live worker runs, by queue and task, with the reason.
select u.queue, u.task, u.reason, u.since, u.waiting from onceward.unserved u order by u.since limit 5
