-- Create a notification. Return no row if the organization already has one with this key.
insert into onceward.notifications (id, organization_id, type, severity, channels, recipients, remaining, key, caused_by)
values (nextval('onceward.ids'), $1, $2, $3, $4, $5, $6, $7, $8)
on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key) where key is not null do nothing
returning id
