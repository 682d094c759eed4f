-- For each payment that was booked: the cash of its journals is what the service has for it, as its state says.
select format('payment %s: the journals hold %s %s of cash, but its state says %s', p.id, j.cash, p.currency,
              p.received - (p.refunded - p.settled) - p.withheld - p.booked_fee - d.fees)
  from onceward.payments p
  join lateral (select sum(cash) as cash from onceward.payment_journals where payment_id = p.id having count(*) > 0) j on true
  join lateral (select coalesce(sum(booked_fee), 0) as fees from onceward.payment_disputes where payment_id = p.id) d on true
 where j.cash <> p.received - (p.refunded - p.settled) - p.withheld - p.booked_fee - d.fees
 limit $1
