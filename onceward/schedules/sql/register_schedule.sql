-- Store a schedule as the app declares it. A pause stays.
insert into onceward.schedules as s
    (name, task, queue, cron, every_s, tz, missed, window_s, most, overlap, jitter_s, decided_until, next_at, severity)
values ($name, $task, $queue, $cron, $every_s, $tz, $missed, $window_s, $most, $overlap, $jitter_s, onceward.now(),
    onceward.now(), $severity)
on conflict (name) do update
    set task = excluded.task, queue = excluded.queue, cron = excluded.cron, every_s = excluded.every_s, tz = excluded.tz,
        missed = excluded.missed, window_s = excluded.window_s, most = excluded.most, overlap = excluded.overlap,
        jitter_s = excluded.jitter_s, severity = excluded.severity,
        -- A changed time applies from now on: the old one has decided the past.
        decided_until = case when (s.cron, s.every_s, s.tz) is distinct from (excluded.cron, excluded.every_s, excluded.tz)
                             then onceward.now() else s.decided_until end,
        next_at = case when (s.cron, s.every_s, s.tz) is distinct from (excluded.cron, excluded.every_s, excluded.tz)
                       then onceward.now() else s.next_at end
