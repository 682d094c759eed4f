-- Return accounts whose events should be listed: often while something is open, otherwise once in six hours. $1: services without events.
update onceward.payment_accounts a
   set list_at = onceward.now() + case
       when exists (select from onceward.payments p where p.account_id = a.id and p.ask_at is not null limit 1) then interval '5 minutes'
       else interval '6 hours' end
 where a.id in (select id from onceward.payment_accounts
                 where list_at <= onceward.now() and source is not null and service <> all ($1)
                 order by list_at limit 50 for update skip locked)
returning a.id, a.organization_id
