-- Make the next probe of a refused template due at once. Return no row if the template is not refused.
update onceward.account_troubles t set probe_at = clock_timestamp(), checked_at = clock_timestamp()
 where t.channel = $1 and t.organization_id is not distinct from $2 and t.template = $3 and t.language = $4
returning t.id, t.organization_id, t.channel, t.template, t.language
