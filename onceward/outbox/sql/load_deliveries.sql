-- Return what claimed deliveries send. A delivery whose body was pruned is left out.
select d.id, d.endpoint_id, e.version, p.message_id, p.type, p.body, p.trace, p.headers
  from onceward.deliveries d
  join onceward.endpoints e using (endpoint_id)
  join onceward.published p on p.id = d.caused_by
 where d.id = any($1::bigint[]) and p.body is not null
