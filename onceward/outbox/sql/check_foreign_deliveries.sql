-- Find deliveries with an id above $1 whose organization differs from that of their event or endpoint.
select d.id from onceward.deliveries d
  join onceward.published p on p.id = d.caused_by
  join onceward.endpoints e using (endpoint_id)
 where d.id > $1
   and (d.organization_id is distinct from p.organization_id or d.organization_id is distinct from e.organization_id)
 limit 100
