-- Delete deleted endpoints of URLs of requests of whose history nothing is left. Up to 500 in one run.
with gone as (
    select e.endpoint_id from onceward.endpoints e
     where e.direct and e.deleted_at < onceward.now() - interval '30 days'
       and not exists (select from onceward.deliveries d where d.endpoint_id = e.endpoint_id)
       and not exists (select from onceward.endpoint_notices n where n.endpoint_id = e.endpoint_id)
     limit 500 for update of e skip locked
)
delete from onceward.endpoints e using gone where e.endpoint_id = gone.endpoint_id
