-- Everything that has no end yet has a time at which the service is asked about it, and that time has not passed long ago.
select format('%s %s is %s and nobody will ask about it', kind, id, status)
  from (select 'payment' as kind, id, status, ask_at from onceward.payments where status in ('created', 'open', 'processing')
        union all
        select 'refund', id, status, ask_at from onceward.payment_refunds where status in ('requested', 'sent', 'pending')
        union all
        select 'dispute', id, status, ask_at from onceward.payment_disputes where status in ('inquiry', 'open')
        union all
        select 'plan', id, status, ask_at from onceward.payment_plans
         where subscription is not null and ended_at is null and status <> 'starting') open
 where ask_at is null or ask_at < onceward.now() - interval '1 day'
 limit $1
