-- Resume a schedule. Due times during the pause do not count as missed.
update onceward.schedules set paused_at = null, paused_by = null, decided_until = onceward.now(), next_at = onceward.now()
 where name = $1 and paused_at is not null returning name
