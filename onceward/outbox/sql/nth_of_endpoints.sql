-- Return the id of the $3th delivery of these endpoints, from the id $1 (exclusive) down to $2.
select own.id
  from unnest($4::uuid[]) e (id)
 cross join lateral (
    select d.id from onceward.deliveries d
     where d.endpoint_id = e.id and d.id < $1 and d.id >= $2 order by d.id desc limit $3) own
 order by own.id desc offset $3 - 1 limit 1
