-- Count the deliveries that a resend would send again.
select count(*) from onceward.deliveries d
 where ($1::uuid is null or d.endpoint_id = $1)
   and coalesce(d.organization_id, '00000000-0000-0000-0000-000000000000')
       = coalesce($2::uuid, '00000000-0000-0000-0000-000000000000')
   and d.created_at >= $3 and d.created_at < $4
   and ($5::text[] is null or d.type = any($5)) and ($6::text[] is null or d.status = any($6))
