-- Return the troubles whose organization has changed a secret of the service since. $1 the secrets, with their channels in $2.
select t.id from onceward.account_troubles t
 where exists (select from unnest($1::text[], $2::text[]) as own (name, channel)
                 join onceward.secrets s on s.name = own.name
                where own.channel = t.channel and s.organization_id = t.organization_id and s.changed_at > t.checked_at)
