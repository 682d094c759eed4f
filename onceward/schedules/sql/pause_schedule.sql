-- Pause a schedule. If it is paused already, the first pause stays.
update onceward.schedules set paused_at = coalesce(paused_at, onceward.now()), paused_by = coalesce(paused_by, $2)
 where name = $1 returning name
