-- The domains that mail is sent from, without their keys: of the organization $1, or with null of all. Those that do not sign first.
select d.domain, d.selector, d.sender, d.created_at, d.verified_at, o.slug
  from onceward.mail_domains d
  left join onceward.organizations o on o.organization_id = d.organization_id
 where $1::uuid is null or d.organization_id = $1
 order by d.verified_at is not null, d.domain
 limit 200
