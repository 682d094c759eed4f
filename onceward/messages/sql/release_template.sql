-- Let the messages of a template that waited for its repair run now.
update onceward.work w set sort_at = onceward.now()
  from onceward.messages m
 where m.id = w.id and m.channel = $1 and m.template = $2 and m.status = 'pending'
   and m.organization_id is not distinct from coalesce($3, m.organization_id)
   and m.reason like 'the template is refused%' and w.lease is null and w.dead_reason is null and w.sort_at > onceward.now()
