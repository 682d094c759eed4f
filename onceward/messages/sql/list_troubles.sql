-- List the accounts that a service refuses, the longest first: of channel $1 or of all, and with $2 of organization $3 only.
select id, organization_id, channel, template, language, reason, advice, since, probes, probe_at
  from onceward.account_troubles
 where ($1::text is null or channel = $1) and (not $2 or organization_id is not distinct from $3)
 order by since, id
 limit 1000
