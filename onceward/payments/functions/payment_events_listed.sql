-- Store how far the events of an account were listed.
create or replace function onceward.payment_events_listed(account uuid, upto text) returns void
    language sql security definer set search_path = pg_catalog, pg_temp as $$
    update onceward.payment_accounts set cursor = upto, listed_at = onceward.now() where id = account
$$;

revoke all on function onceward.payment_events_listed(uuid, text) from public;
grant execute on function onceward.payment_events_listed(uuid, text) to onceward_app, onceward_engine;
