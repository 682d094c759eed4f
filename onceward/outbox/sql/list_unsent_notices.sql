-- Return the notices for endpoint owners that have not been sent, oldest first.
select n.id, n.organization_id, n.kind, n.owner, e.url, n.details
  from onceward.endpoint_notices n join onceward.endpoints e using (endpoint_id)
 where n.told_at is null order by n.id limit 100
