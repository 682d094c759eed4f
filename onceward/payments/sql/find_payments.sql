-- Payments of the acting organization, newest first.
select p.id, p.subject_type, p.subject_id, p.status, p.amount, p.currency, p.received, p.refunded, p.withheld, p.decision,
       a.name as account, a.service, p.charge, p.created_at, p.paid_at
  from onceward.payments p join onceward.payment_accounts a on a.id = p.account_id
 where p.organization_id = onceward.organization()
   and ($1::text is null or p.status = $1)
   and ($2::uuid is null or (p.created_at, p.id) < (select b.created_at, b.id from onceward.payments b where b.id = $2))
 order by p.created_at desc, p.id desc
 limit $3
