-- Store that a recipient wants one mail a day or a week of a topic.
insert into onceward.digest_choices as c (organization_id, recipient, category, period) values ($1, $2, $3, $4)
on conflict (recipient, category, coalesce(organization_id, '00000000-0000-0000-0000-000000000000'))
do update set period = excluded.period, changed_at = onceward.now() where c.period <> excluded.period
