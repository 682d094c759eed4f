-- List messages with an unknown outcome in the order of their ids, without addresses and content.
select m.id, m.organization_id, m.key, m.channel, m.template, m.reason, m.attempts,
       coalesce(m.unsure_since, m.sending_since) as sending_since, m.created_at
  from onceward.messages m
 where m.status = 'unknown' and m.id > $1
   and ($2::bigint[] is null or m.id = any($2)) and ($3::text is null or m.channel = $3)
   and ($4::text is null or m.template = $4) and ($5::uuid is null or m.organization_id = $5)
   and ($6::timestamptz is null or coalesce(m.unsure_since, m.sending_since, m.created_at) >= $6)
   and ($7::timestamptz is null or coalesce(m.unsure_since, m.sending_since, m.created_at) < $7)
 order by m.id limit $8
