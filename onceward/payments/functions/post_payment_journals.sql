-- Post journals of payments, open the accounts of the ledger that they need, and link each journal to its payment or payout.
-- `p_books` is {"cash": code, "kinds": {code: kind}}, each journal {"key", "kind", "entries": [[debit, credit, amount]]}.
create or replace function onceward.post_payment_journals(p_payment uuid, p_payout uuid, p_currency text, p_books jsonb, p_journals jsonb)
    returns void
    language plpgsql as $$
declare
    account record;
    journal record;
    posted bigint;
begin
    -- In one order, so that two transactions that open the same accounts do not wait for each other.
    for account in
        select k.key as code, k.value as kind from jsonb_each_text(p_books -> 'kinds') k
         where not exists (select from onceward.ledger_accounts a
                            where a.organization_id = onceward.organization() and a.code = k.key and a.currency = p_currency
                              and a.kind = k.value and not a.bounded)
         order by k.key
    loop
        perform onceward.ledger_open(account.code, p_currency, account.kind, false, null);
    end loop;
    for journal in
        select j.value ->> 'key' as key, j.value ->> 'kind' as kind, e.debits, e.credits, e.amounts, e.currencies, e.cash
          from jsonb_array_elements(p_journals) with ordinality j (value, n)
          cross join lateral (
              select array_agg(x.value ->> 0 order by x.n) as debits, array_agg(x.value ->> 1 order by x.n) as credits,
                     array_agg((x.value ->> 2)::bigint order by x.n) as amounts, array_agg(p_currency) as currencies,
                     coalesce(sum((x.value ->> 2)::bigint) filter (where x.value ->> 0 = p_books ->> 'cash'), 0)
                         - coalesce(sum((x.value ->> 2)::bigint) filter (where x.value ->> 1 = p_books ->> 'cash'), 0) as cash
                from jsonb_array_elements(j.value -> 'entries') with ordinality x (value, n)
          ) e
         order by j.n
    loop
        select p.journal_id into posted
          from onceward.ledger_post(journal.key, journal.debits, journal.credits, journal.amounts, journal.currencies, journal.kind) p;
        insert into onceward.payment_journals (journal_id, payment_id, payout_id, kind, cash, cash_code)
        values (posted, p_payment, p_payout, journal.kind, journal.cash, p_books ->> 'cash');
    end loop;
end
$$;

revoke all on function onceward.post_payment_journals(uuid, uuid, text, jsonb, jsonb) from public;
grant execute on function onceward.post_payment_journals(uuid, uuid, text, jsonb, jsonb) to onceward_app, onceward_engine;
