-- Payments of the acting organization, newest first: all, or those that a text names.
select p.id, p.subject_type, p.subject_id, p.status, p.amount, p.currency, p.received, p.refunded, p.withheld, p.decision,
       a.name as account, a.service, p.charge, p.created_at, p.paid_at
  from onceward.payments p join onceward.payment_accounts a on a.id = p.account_id
 where p.organization_id = onceward.organization()
   and ($1::text is null or p.id::text = $1 or p.subject_id = $1 or lower(p.email) = lower($1) or lower(p.receipt) = lower($1)
        or (p.subject_type, p.subject_id) in (select * from unnest($5::text[], $6::text[]))
        or p.id in (select n.payment_id from onceward.payment_names n where n.name = $1)
        or p.id in (select r.payment_id from onceward.payment_refunds r where r.reference = $1 or r.id::text = $1)
        or p.id in (select d.payment_id from onceward.payment_disputes d where d.reference = $1 or d.id::text = $1))
   and ($2::text is null or p.status = $2)
   and ($3::uuid is null or (p.created_at, p.id) < (select b.created_at, b.id from onceward.payments b where b.id = $3))
 order by p.created_at desc, p.id desc
 limit $4
