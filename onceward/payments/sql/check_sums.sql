-- The sums of a payment are those of its refunds and disputes, and a dispute is booked as far as it takes money.
select format('payment %s: refunded is %s and its refunds sum up to %s; withheld is %s and its disputes take %s', p.id, p.refunded,
              r.refunded, p.withheld, d.taken)
  from onceward.payments p
  join lateral (select coalesce(sum(booked), 0) as refunded from onceward.payment_refunds where payment_id = p.id) r on true
  join lateral (select coalesce(sum(taken), 0) as taken, coalesce(bool_and(taken = booked_taken), true) as is_booked
                  from onceward.payment_disputes where payment_id = p.id) d on true
 where p.received > 0 and (p.refunded <> r.refunded or p.withheld <> d.taken or not d.is_booked)
 limit $1
