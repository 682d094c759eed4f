-- Fees of movements that are not booked yet, with the payments whose charges moved. A fee in another currency cannot be booked to it.
select n.payment_id, n.organization_id, f.reference, f.amount, f.currency, f.taken_at
  from unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::timestamptz[]) f (charge, reference, amount, currency, taken_at)
  join onceward.payment_names n on n.account_id = $1 and n.name = f.charge
  join onceward.payments p on p.id = n.payment_id and p.currency = f.currency and p.received > 0
 where not exists (select from onceward.payment_fees k where k.account_id = $1 and k.reference = f.reference)
 order by n.payment_id, f.taken_at, f.reference
