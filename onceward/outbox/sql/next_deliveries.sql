-- Return the next deliveries of a resend, in the order of their ids, up to the id at which the resend was created.
select d.id from onceward.deliveries d
 where d.id > $7 and d.id < $9 and ($1::uuid is null or d.endpoint_id = $1)
   and coalesce(d.organization_id, '00000000-0000-0000-0000-000000000000')
       = coalesce($2::uuid, '00000000-0000-0000-0000-000000000000')
   and d.created_at >= $3 and d.created_at < $4
   and ($5::text[] is null or d.type = any($5)) and ($6::text[] is null or d.status = any($6))
 order by d.id limit $8
