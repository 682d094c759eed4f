-- Change bounded balances (0), reserve what pending entries would take from them (1), or release that reserve (-1).
create or replace function onceward.ledger_move(p_debits bigint[], p_credits bigint[], p_amounts bigint[], p_reserve int)
    returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    change record;
begin
    perform onceward.ledger_lock(p_debits || p_credits);
    for change in
        select a.id, a.code, a.currency, b.balance, b.reserved, l.gain, l.loss
        from (
            select account, sum(amount) filter (where debit = a.debit_normal) as gain,
                   sum(amount) filter (where debit <> a.debit_normal) as loss
            from (
                select debit as account, amount, true as debit from unnest(p_debits, p_amounts) as x (debit, amount)
                union all
                select credit, amount, false from unnest(p_credits, p_amounts) as x (credit, amount)
            ) legs
            join onceward.ledger_accounts a on a.id = legs.account and a.bounded
            group by account
        ) l
        join onceward.ledger_bounds b on b.account_id = l.account
        join onceward.ledger_accounts a on a.id = l.account
        order by a.id
    loop
        change.gain := coalesce(change.gain, 0);
        change.loss := coalesce(change.loss, 0);
        if p_reserve >= 0 and change.balance - change.reserved
            + (case when p_reserve = 0 then change.gain else 0 end) - change.loss < 0 then
            raise exception 'account % has % %, % is needed', change.code, change.balance - change.reserved,
                change.currency, change.loss using errcode = 'OW105';
        end if;
        update onceward.ledger_bounds
        set balance = balance + case when p_reserve = 0 then change.gain - change.loss else 0 end,
            reserved = reserved + p_reserve * change.loss
        where account_id = change.id;
    end loop;
end
$$;

comment on function onceward.ledger_move(bigint[], bigint[], bigint[], int) is
    'Change bounded balances (0), reserve what pending entries would take from them (1), or release that reserve (-1).';

revoke all on function onceward.ledger_move(bigint[], bigint[], bigint[], int) from public;
