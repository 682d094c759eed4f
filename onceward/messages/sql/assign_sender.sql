-- Give a phone number to an organization, and take it from the one that has it. Returns no row if the organization has it already.
insert into onceward.senders as s (kind, identifier, organization_id, proof) values ($1, $2, $3, 'administrator')
on conflict (kind, identifier) do update
   set organization_id = excluded.organization_id, proof = excluded.proof, proven_at = onceward.now()
 where s.organization_id <> excluded.organization_id
returning true
