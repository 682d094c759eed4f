-- Return what is needed to sign and send to these endpoints: address, headers, secrets and signing key.
select e.endpoint_id, e.url, e.headers, e.active, e.retry_waits_s, e.version, e.filter, e.transform, e.auth,
       k.key_id, k.private_key,
       array(select s.secret_id from onceward.endpoint_secrets s where s.endpoint_id = e.endpoint_id order by s.created_at)
           as secret_ids,
       array(select s.secret from onceward.endpoint_secrets s where s.endpoint_id = e.endpoint_id order by s.created_at)
           as secrets,
       array(select s.expires_at from onceward.endpoint_secrets s where s.endpoint_id = e.endpoint_id order by s.created_at)
           as expiries
  from onceward.endpoints e
  left join onceward.signing_keys k on e.ed25519 and k.organization_id is not distinct from e.organization_id
 where e.endpoint_id = any($1::uuid[])
