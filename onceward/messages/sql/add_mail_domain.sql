-- Add the key of a mail domain. Returns no row if the organization has a key for this domain already.
insert into onceward.mail_domains (id, organization_id, domain, selector, sender, private_key)
values ($1, $2, $3, $4, $5, $6)
on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), domain) do nothing returning true
