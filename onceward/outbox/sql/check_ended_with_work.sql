-- Find finished deliveries that still have work, and dead letters on which delivery and work disagree.
select d.id, d.status from onceward.deliveries d join onceward.work w on w.id = d.id
 where d.status in ('success', 'skipped', 'failed', 'cancelled') or (d.status = 'dead_letter') <> (w.dead_reason is not null) limit 100
