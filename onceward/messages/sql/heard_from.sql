-- Store when a person last wrote to us.
insert into onceward.recipients as r (organization_id, ref, heard_at) values ($1, $2, onceward.now())
  on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), ref)
  do update set heard_at = onceward.now()
