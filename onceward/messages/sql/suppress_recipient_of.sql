-- Suppress the address of a mail, in the organization of the mail. A message whose content was removed has no address any more.
insert into onceward.suppressions (organization_id, address_hash, address, reason, source, status, message)
select m.organization_id, onceward.person_hash(known.address), lower(btrim(known.address)), $2, $3, $4, m.id
  from onceward.messages m
  left join onceward.recipients r on r.ref = m.recipient and r.organization_id is not distinct from m.organization_id
 cross join lateral (select coalesce(m.address, r.email) as address) as known
 where m.id = $1 and m.channel = 'email' and known.address is not null
on conflict do nothing
returning true
