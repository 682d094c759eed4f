-- Return the messages that already have these keys.
select id, key from onceward.messages
 where coalesce(organization_id, '00000000-0000-0000-0000-000000000000')
       = coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') and key = any($2::text[])
