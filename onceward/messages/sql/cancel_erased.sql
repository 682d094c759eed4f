-- Delete the work of messages to an erased person, and let their notifications and bundles finish without them.
with deleted as (
    delete from onceward.work w where w.id = any($1) returning w.id, w.bundle, w.dead_reason
)
select onceward.finish_notification(m.id, m.notification, false)
  from deleted join onceward.messages m using (id) where m.notification is not null and deleted.dead_reason is null
union all
select onceward.leave_bundle(deleted.bundle) from deleted where deleted.bundle is not null
