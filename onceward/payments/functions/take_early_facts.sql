-- Return and forget the reports that came before their charge was known.
create or replace function onceward.take_early_facts(account uuid, names text[]) returns table (kind text, fact jsonb)
    language sql security definer set search_path = pg_catalog, pg_temp as $$
    delete from onceward.payment_early e where e.account_id = account and e.charge = any (names) returning e.kind, e.fact
$$;

revoke all on function onceward.take_early_facts(uuid, text[]) from public;
grant execute on function onceward.take_early_facts(uuid, text[]) to onceward_app, onceward_engine;
