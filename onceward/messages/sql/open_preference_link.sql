-- Return the recipient of a valid link, and on which channels the recipient can be reached.
select l.organization_id, l.recipient, r.locale,
       r.email is not null or l.recipient like '%@%' as email,
       r.phone is not null or l.recipient like '+%' as sms,
       coalesce(r.whatsapp, r.phone) is not null or l.recipient like '+%' as whatsapp,
       r.push is not null as push, r.quiet_from, r.quiet_to, r.timezone
  from onceward.preference_links l
  left join onceward.recipients r on r.ref = l.recipient and r.organization_id is not distinct from l.organization_id
 where l.token_hash = $1 and l.revoked_at is null and l.expires_at > onceward.now()
