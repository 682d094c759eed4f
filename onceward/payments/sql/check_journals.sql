-- Each journal of the machine moves the cash in the ledger that it says, and no other journal is named like one of the machine's.
select format('journal %s is recorded with %s of cash and moves %s in the ledger', j.journal_id, j.cash, m.cash)
  from onceward.payment_journals j
  join lateral (
      select coalesce(sum(case when d.code = j.cash_code then e.amount when c.code = j.cash_code then -e.amount else 0 end), 0) as cash
        from onceward.ledger_entries e
        join onceward.ledger_accounts d on d.id = e.debit_id
        join onceward.ledger_accounts c on c.id = e.credit_id
       where e.journal_id = j.journal_id) m on true
 where j.cash <> m.cash
union all
select format('journal %s (%s) is named like one of payments, but payments did not post it', l.id, l.key)
  from onceward.payments p join onceward.ledger_journals l on l.organization_id = p.organization_id
       and l.key >= 'payment:' || p.id || ':' and l.key < 'payment:' || p.id || ';'
 where not exists (select from onceward.payment_journals j where j.journal_id = l.id)
union all
select format('journal %s (%s) is named like one of payments, but payments did not post it', l.id, l.key)
  from onceward.payment_disputes d join onceward.ledger_journals l on l.organization_id = d.organization_id
       and l.key >= 'dispute:' || d.id || ':' and l.key < 'dispute:' || d.id || ';'
 where not exists (select from onceward.payment_journals j where j.journal_id = l.id)
union all
select format('journal %s (%s) is named like one of payments, but payments did not post it', l.id, l.key)
  from onceward.payment_payouts o join onceward.ledger_journals l on l.organization_id = o.organization_id
       and l.key >= 'payout:' || o.id || ':' and l.key < 'payout:' || o.id || ';'
 where not exists (select from onceward.payment_journals j where j.journal_id = l.id)
union all
select format('journal %s (%s) is named like one of payments, but payments did not post it', l.id, l.key)
  from onceward.payment_accounts a join onceward.ledger_journals l on l.organization_id = a.organization_id
       and l.key >= 'fee:' || a.id || ':' and l.key < 'fee:' || a.id || ';'
 where not exists (select from onceward.payment_journals j where j.journal_id = l.id)
 limit $1
