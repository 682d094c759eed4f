-- Store when a person last wrote to us: at $3, which is never in the future and never moves the time back.
insert into onceward.recipients as r (organization_id, ref, heard_at) values ($1, $2, least($3, onceward.now()))
  on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), ref)
  do update set heard_at = greatest(r.heard_at, excluded.heard_at)
