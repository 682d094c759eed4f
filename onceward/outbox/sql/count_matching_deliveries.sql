-- Count the deliveries that a resend of one organization ($2), or of none, would send again.
select count(*) from onceward.deliveries d
 where ($1::uuid is null or d.endpoint_id = $1)
   and ($2::uuid is null or d.organization_id = $2) and ($2::uuid is null) = (d.organization_id is null)
   and d.created_at >= $3 and d.created_at < $4
   and ($5::text[] is null or d.type = any($5)) and ($6::text[] is null or d.status = any($6))
