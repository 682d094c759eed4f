-- Return the notification that already has this key.
select id from onceward.notifications
 where coalesce(organization_id, '00000000-0000-0000-0000-000000000000')
       = coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') and key = $2
