-- Delete the endpoints of URLs of requests that have had no event for 30 days. Up to 500 in one run.
with idle as (
    select e.endpoint_id from onceward.endpoints e
     where e.direct and e.deleted_at is null and e.created_at < onceward.now() - interval '30 days'
       and ($1::uuid is null or e.organization_id = $1)
       and coalesce((select d.created_at from onceward.deliveries d where d.endpoint_id = e.endpoint_id order by d.id desc limit 1),
                    e.created_at) < onceward.now() - interval '30 days'
     order by e.created_at limit 500
       for update of e skip locked
), secrets as (
    delete from onceward.endpoint_secrets s using idle where s.endpoint_id = idle.endpoint_id
)
update onceward.endpoints e
   set deleted_at = onceward.now(), headers = null, active = false, disabled_at = onceward.now(), disabled_reason = 'deleted',
       version = nextval('onceward.ids')
  from idle where e.endpoint_id = idle.endpoint_id
returning e.endpoint_id
