-- Show a message in the dashboard. Sending the same message again changes nothing.
insert into onceward.dashboard_messages (id, organization_id, recipient, type, severity, title, body)
values ($1, $2, $3, $4, $5, $6, $7) on conflict (id) do nothing
