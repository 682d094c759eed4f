-- Write one journal with its entries. The same key and body again returns the same journal; another body raises OW104.
create or replace function onceward.ledger_post(
    p_key text, p_debits text[], p_credits text[], p_amounts bigint[], p_currencies text[],
    p_memo text default null, p_pending boolean default false,
    out journal_id bigint, out fresh boolean)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    digest bytea := sha256(convert_to(jsonb_build_array(
        p_debits, p_credits, p_amounts, p_currencies, p_memo, p_pending)::text, 'UTF8'));
    debits bigint[];
    credits bigint[];
    bounded boolean;
    total numeric;
    unknown text;
begin
    select array_agg(d.id order by w.n), array_agg(c.id order by w.n), bool_or(d.bounded or c.bounded), sum(w.amount),
           string_agg(concat_ws(', ', case when d.id is null then w.debit || ' in ' || w.currency end,
                                      case when c.id is null then w.credit || ' in ' || w.currency end), ', ')
               filter (where d.id is null or c.id is null)
    into debits, credits, bounded, total, unknown
    from unnest(p_debits, p_credits, p_amounts, p_currencies) with ordinality as w (debit, credit, amount, currency, n)
    left join onceward.ledger_accounts d on d.organization_id = org and d.code = w.debit and d.currency = w.currency
    left join onceward.ledger_accounts c on c.organization_id = org and c.code = w.credit and c.currency = w.currency;
    if unknown is not null then
        raise exception 'no such account: %', unknown using errcode = 'OW103';
    end if;
    if bounded then
        -- Before the key is inserted: the order of locks begins with the accounts.
        perform onceward.ledger_lock(debits || credits);
    end if;

    insert into onceward.ledger_journals (organization_id, key, kind, body, entries, total, memo, caused_by)
    values (org, p_key, case when p_pending then 'pending' else 'posted' end, digest, cardinality(p_amounts), total,
            p_memo, onceward.cause())
    on conflict (organization_id, key) do nothing
    returning id into journal_id;
    fresh := journal_id is not null;
    if not fresh then
        journal_id := onceward.ledger_found(org, p_key, digest);
        return;
    end if;
    -- After the journal: the transaction must have its number before it draws ids for entries (see ledger_checkpoint).
    insert into onceward.ledger_entries
        (journal_id, organization_id, debit_id, credit_id, amount, currency, pending)
    select ledger_post.journal_id, org, w.debit, w.credit, w.amount, w.currency, p_pending
    from unnest(debits, credits, p_amounts, p_currencies) as w (debit, credit, amount, currency);
    if p_pending then
        insert into onceward.ledger_pending (journal_id, organization_id) values (ledger_post.journal_id, org);
    end if;
    if bounded then
        perform onceward.ledger_move(debits, credits, p_amounts, case when p_pending then 1 else 0 end);
    end if;
end
$$;

comment on function onceward.ledger_post(text, text[], text[], bigint[], text[], text, boolean) is
    'Write one journal with its entries. The same key and body again returns the same journal; another body raises OW104.';

revoke all on function onceward.ledger_post(text, text[], text[], bigint[], text[], text, boolean) from public;
grant execute on function onceward.ledger_post(text, text[], text[], bigint[], text[], text, boolean) to onceward_app, onceward_engine;
