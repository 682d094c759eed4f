-- Unfinished payments and refunds by service and state: how many (at most 10,000 are counted), and the age of the oldest.
with unfinished as (
    (select 'payment' as kind, p.account_id, p.status, p.created_at from onceward.payments p
      where p.ask_at is not null and p.status in ('created', 'open', 'processing') order by p.ask_at limit 10000)
    union all
    (select 'refund', p.account_id, r.status, r.created_at
       from (select payment_id, status, created_at from onceward.payment_refunds
              where ask_at is not null and status in ('requested', 'sent', 'pending') order by ask_at limit 10000) r
       join onceward.payments p on p.id = r.payment_id)
    union all
    (select 'refund', p.account_id, r.status, r.created_at
       from (select payment_id, status, created_at from onceward.payment_refunds
              where status = 'failed' order by created_at limit 1000) r
       join onceward.payments p on p.id = r.payment_id)
)
select u.kind, a.service, u.status, count(*) as count, extract(epoch from onceward.now() - min(u.created_at))::float as oldest_s
  from unfinished u join onceward.payment_accounts a on a.id = u.account_id group by 1, 2, 3
