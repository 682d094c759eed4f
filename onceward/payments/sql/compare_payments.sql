-- What our tables and journals hold for the payments of an account that these charges name, or that were opened and paid since.
with chosen as (
    select n.payment_id as id, array_agg(n.name) as names from onceward.payment_names n
     where n.account_id = $1 and n.name = any ($2::text[]) group by 1
    union all
    select p.id, '{}' from onceward.payments p
     where p.account_id = $1 and p.paid_at >= $3 and p.created_at >= $3 and $4
)
select p.id, p.organization_id, p.charge, p.currency, p.received, p.withheld, p.created_at, c.names,
       p.received - (p.refunded - p.settled) - p.withheld as held,
       j.cash + p.booked_fee + d.fees as booked, p.booked_fee + d.fees as fees,
       r.refunds, r.unfinished > 0 as is_unfinished, greatest(p.paid_at, r.changed_at, d.changed_at) as changed_at
  from chosen c
  join onceward.payments p on p.id = c.id
  join lateral (select sum(cash)::bigint as cash from onceward.payment_journals where payment_id = p.id) j on true
  join lateral (
      select coalesce(jsonb_agg(jsonb_build_object('reference', reference, 'earlier', earlier, 'amount', amount, 'status', status,
                                                   'is_new', created_at >= $3) order by created_at, id), '[]') as refunds,
             count(*) filter (where status in ('requested', 'sent', 'pending')) as unfinished,
             max(greatest(created_at, done_at)) as changed_at
        from onceward.payment_refunds where payment_id = p.id
  ) r on true
  join lateral (
      select coalesce(sum(booked_fee), 0)::bigint as fees, max(greatest(created_at, decided_at)) as changed_at
        from onceward.payment_disputes where payment_id = p.id
  ) d on true
