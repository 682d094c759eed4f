-- Each payout has left the cash of the ledger as far as its state says, and each fee of an account as its movement says. What came before
-- the first journal of an organization was not booked: it kept no books then.
with begun as materialized (
    select organization_id, min(created_at) as at from onceward.payment_journals group by 1
), payouts as (
    select payout_id, sum(cash) as cash from onceward.payment_journals where payout_id is not null group by 1
)
select format('payout %s (%s) is %s and booked with %s %s, and its journals move %s of cash', o.id, o.reference, o.status, o.booked,
              o.currency, coalesce(j.cash, 0))
  from onceward.payment_payouts o join begun b on b.organization_id = o.organization_id and o.created_at >= b.at
  left join payouts j on j.payout_id = o.id
 where coalesce(j.cash, 0) <> -o.booked or o.booked <> case when o.status = 'failed' then 0 else o.amount end
union all
select format('fee %s of account %s is %s %s, and its journal moves %s of cash', f.reference, f.account_id, f.amount, f.currency,
              coalesce(j.cash, 0))
  from onceward.payment_fees f join begun b on b.organization_id = f.organization_id and f.taken_at >= b.at
  left join onceward.ledger_journals l
    on l.organization_id = f.organization_id and l.key = 'fee:' || f.account_id || ':' || f.reference
  left join onceward.payment_journals j on j.journal_id = l.id
 where f.payment_id is null and coalesce(j.cash, 0) <> -f.amount
union all
select format('payment %s: its fee is %s and the movements of the balance took %s', p.id, p.fee, f.amount)
  from (select payment_id, sum(amount) as amount from onceward.payment_fees where payment_id is not null group by 1) f
  join onceward.payments p on p.id = f.payment_id
 where p.fee <> f.amount and p.fee_read_at is not null
 limit $1
