-- Store the quiet hours of a recipient; nulls: none of the recipient's own.
insert into onceward.recipients as r (organization_id, ref, quiet_from, quiet_to) values ($1, $2, $3, $4)
on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), ref)
do update set quiet_from = excluded.quiet_from, quiet_to = excluded.quiet_to, updated_at = onceward.now()
