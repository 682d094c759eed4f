-- Return the next events that an endpoint subscribes to but that have no delivery for it, in the order of their ids.
select p.id, p.type, p.channels from onceward.published p
  join onceward.endpoints e on e.endpoint_id = $1 and e.active
 where p.id > $6 and p.created_at >= $3 and p.created_at < $4 and p.body is not null
   and coalesce(p.organization_id, '00000000-0000-0000-0000-000000000000')
       = coalesce($2::uuid, '00000000-0000-0000-0000-000000000000')
   and ($5::text[] is null or p.type = any($5))
   and e.events && array(
       select '*' union all select p.type union all
       select array_to_string((string_to_array(p.type, '.'))[:n], '.') || '.*'
         from generate_series(1, cardinality(string_to_array(p.type, '.')) - 1) n)
   and (e.channels is null or e.channels && p.channels)
   and not exists (select from onceward.deliveries d where d.caused_by = p.id and d.endpoint_id = e.endpoint_id)
 order by p.id limit $7
