-- Payments of the acting organization that a text names, newest first. Each way to name one reads an index.
with named as materialized (
    select p.id from onceward.payments p where p.organization_id = onceward.organization() and p.subject_id = $1
    union select p.id from onceward.payments p where p.organization_id = onceward.organization() and lower(p.email) = lower($1)
    union select p.id from onceward.payments p where p.organization_id = onceward.organization() and lower(p.receipt) = lower($1)
    union select p.id from unnest($5::text[], $6::text[]) as s (type, id)
            join onceward.payments p on p.organization_id = onceward.organization() and p.subject_id = s.id and p.subject_type = s.type
    union select n.payment_id from onceward.payment_names n where n.name = $1
    union select r.payment_id from onceward.payment_refunds r where r.organization_id = onceward.organization() and r.reference = $1
    union select d.payment_id from onceward.payment_disputes d where d.organization_id = onceward.organization() and d.reference = $1
    union select r.payment_id from onceward.payment_refunds r where r.id = $7::uuid
    union select d.payment_id from onceward.payment_disputes d where d.id = $7::uuid
    union select $7::uuid
)
select p.id, p.subject_type, p.subject_id, p.status, p.amount, p.currency, p.received, p.refunded, p.withheld, p.decision,
       a.name as account, a.service, p.charge, p.created_at, p.paid_at
  from named m join onceward.payments p on p.id = m.id join onceward.payment_accounts a on a.id = p.account_id
 where p.organization_id = onceward.organization()
   and ($2::text is null or p.status = $2)
   and ($3::uuid is null or (p.created_at, p.id) < (select b.created_at, b.id from onceward.payments b where b.id = $3))
 order by p.created_at desc, p.id desc
 limit $4
