-- Keep a report about a charge that is not known (yet). The newest report of each refund or dispute is kept.
create or replace function onceward.keep_early_fact(account uuid, about text, kind text, reference text, fact jsonb) returns void
    language sql security definer set search_path = pg_catalog, pg_temp as $$
    insert into onceward.payment_early as e (account_id, charge, kind, reference, fact)
    values (account, about, kind, reference, fact)
    on conflict (account_id, kind, reference) do update set fact = excluded.fact, charge = excluded.charge
$$;

revoke all on function onceward.keep_early_fact(uuid, text, text, text, jsonb) from public;
grant execute on function onceward.keep_early_fact(uuid, text, text, text, jsonb) to onceward_app, onceward_engine;
