-- Opt-ins and opt-outs, newest first. $1 the organization, or with $2 all; $3 only one decision; $4 only smaller ids.
select c.id, c.organization_id, c.recipient, c.channel, c.category, c.decision, c.source, c.wording, c.actor, c.message, c.decided_at
  from onceward.consents c
 where ($2 or c.organization_id is not distinct from $1) and ($3::text is null or c.decision = $3)
   and ($4::bigint is null or c.id < $4)
 order by c.id desc
 limit $5
