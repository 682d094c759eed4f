-- Delete the work of messages to an erased person, and let their notifications and bundles finish without them.
with deleted as (
    delete from onceward.work w where w.id = any($1)
    returning w.id, w.organization_id, w.attempts, w.earlier, w.task, w.bundle, w.dead_reason
)
select onceward.record_attempts(array_agg(row(
           id, organization_id, attempts + 1, 'message', task, 'cancelled', null, null, clock_timestamp(), null,
           '{"type": "Erased", "message": "the recipient was erased"}', earlier
       )::onceward.attempt))::text
  from deleted
union all
select onceward.finish_notification(m.id, m.notification, false)::text
  from deleted join onceward.messages m using (id) where m.notification is not null and deleted.dead_reason is null
union all
select onceward.leave_bundle(deleted.bundle)::text from deleted where deleted.bundle is not null
