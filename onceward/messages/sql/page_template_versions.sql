-- The latest versions of the template $1, each with the release that brought it. $3 is an organization, or null for all.
select t.version, min(t.created_at) as since, min(t.release) as release, (array_agg(t.content))[1] as content
  from onceward.templates t
 where t.name = $1 and ($3::uuid is null or t.organization_id is null or t.organization_id = $3)
 group by t.version order by since desc limit $2
