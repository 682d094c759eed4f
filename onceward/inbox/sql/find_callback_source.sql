-- Return the address of the source that receives the status callbacks of a provider for messages of an organization.
-- A source of the whole installation comes first, because the installation's account sends the message.
select rtrim(public_url, '/') || '/webhooks/' || name
  from onceward.sources
 where provider = $1 and public_url is not null and mode <> 'external' and deleted_at is null
   and (organization_id is null or organization_id = $2)
 order by organization_id is not null, name <> provider, created_at
 limit 1
