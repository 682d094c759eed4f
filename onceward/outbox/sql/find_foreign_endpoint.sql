-- Return an endpoint of the list that does not exist or belongs to another organization.
select requested.endpoint_id from unnest($2::uuid[]) as requested (endpoint_id)
 where not exists (select from onceward.endpoints e where e.endpoint_id = requested.endpoint_id
                   and e.organization_id is not distinct from $1::uuid and e.deleted_at is null)
 limit 1
