-- Return accounts that should be compared with the service, once a day. $1: services without a balance.
update onceward.payment_accounts a set check_at = onceward.now() + interval '1 day'
 where a.id in (select id from onceward.payment_accounts where check_at <= onceward.now() and service <> all ($1)
                 order by check_at limit 50 for update skip locked)
returning a.id, a.organization_id
