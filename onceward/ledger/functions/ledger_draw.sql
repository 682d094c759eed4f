-- Settle or void a pending journal, or reverse a posted one: the rest of it, or the named parts.
create or replace function onceward.ledger_draw(
    p_kind text, p_key text, p_about bigint, p_entries bigint[] default null, p_amounts bigint[] default null,
    p_memo text default null, out journal_id bigint, out fresh boolean)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    digest bytea := sha256(convert_to(jsonb_build_array(p_kind, p_about, p_entries, p_amounts, p_memo)::text, 'UTF8'));
    source onceward.ledger_journals;
    all_ids bigint[];
    all_debits bigint[];
    all_credits bigint[];
    all_amounts bigint[];
    origins bigint[];
    debits bigint[];
    credits bigint[];
    amounts bigint[];
    problem text;
begin
    select array_agg(id order by id), array_agg(debit_id order by id), array_agg(credit_id order by id),
           array_agg(amount order by id)
    into all_ids, all_debits, all_credits, all_amounts
    from onceward.ledger_entries e where e.journal_id = p_about and e.organization_id = org;
    perform onceward.ledger_lock(all_debits || all_credits);
    select * into source from onceward.ledger_journals
    where id = p_about and organization_id = org for no key update;
    fresh := false;
    journal_id := onceward.ledger_found(org, p_key, digest);
    if journal_id is not null then
        return;
    end if;
    if source.id is null then
        raise exception 'no such journal: %', p_about using errcode = 'OW106';
    end if;
    problem := onceward.ledger_cannot_draw(p_kind, source);
    if problem is not null then
        raise exception '%', problem using errcode = 'OW107';
    end if;

    -- Without named parts: the rest of each entry.
    select array_agg(p.id order by p.id), array_agg(p.debit order by p.id), array_agg(p.credit order by p.id),
           array_agg(p.amount order by p.id),
           min(case when p.whole is null then format('entry %s is not of journal %s', p.id, p_about)
                    else format('entry %s has %s left of %s, %s was asked', p.id, p.remains, p.whole, p.amount) end)
               filter (where p.amount > p.remains or p.whole is null)
    into origins, debits, credits, amounts, problem
    from (
        select coalesce(w.id, e.id) as id, e.debit, e.credit, e.whole, e.whole - coalesce(d.drawn, 0) as remains,
               coalesce(w.amount, e.whole - coalesce(d.drawn, 0)) as amount
        from unnest(all_ids, all_debits, all_credits, all_amounts) as e (id, debit, credit, whole)
        left join onceward.ledger_drawn d on d.entry_id = e.id
        full join unnest(p_entries, p_amounts) as w (id, amount) on w.id = e.id
        where case when p_entries is null then e.whole > coalesce(d.drawn, 0) else w.id is not null end
    ) p
    where p_kind <> 'void';
    if problem is not null or (origins is null and p_kind <> 'void') then
        raise exception '%', coalesce(problem, format('nothing is left of journal %s', p_about)) using errcode = 'OW108';
    end if;

    insert into onceward.ledger_journals (organization_id, key, kind, about, body, entries, total, memo, caused_by)
    values (org, p_key, p_kind, p_about, digest, coalesce(cardinality(origins), 0),
            coalesce((select sum(a) from unnest(amounts) a), 0), p_memo, onceward.cause())
    on conflict (organization_id, key) do nothing
    returning id into journal_id;
    if journal_id is null then
        journal_id := onceward.ledger_found(org, p_key, digest);
        return;
    end if;
    fresh := true;
    if p_kind = 'reversal' then
        select c, d into debits, credits from (select debits as d, credits as c) swapped;
    else
        delete from onceward.ledger_pending p where p.journal_id = p_about;
        perform onceward.ledger_move(all_debits, all_credits, all_amounts, -1);
    end if;
    insert into onceward.ledger_entries
        (journal_id, organization_id, debit_id, credit_id, amount, currency, pending, origin)
    select ledger_draw.journal_id, org, w.debit, w.credit, w.amount, e.currency, false, w.origin
    from unnest(debits, credits, amounts, origins) as w (debit, credit, amount, origin)
    join onceward.ledger_entries e on e.journal_id = p_about and e.id = w.origin;
    perform onceward.ledger_move(debits, credits, amounts, 0);
end
$$;

comment on function onceward.ledger_draw(text, text, bigint, bigint[], bigint[], text) is
    'Settle or void a pending journal, or reverse a posted one: the rest of it, or the named parts.';

revoke all on function onceward.ledger_draw(text, text, bigint, bigint[], bigint[], text) from public;
grant execute on function onceward.ledger_draw(text, text, bigint, bigint[], bigint[], text) to onceward_app, onceward_engine;
