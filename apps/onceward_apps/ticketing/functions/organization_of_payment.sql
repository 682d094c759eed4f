-- Return the organization of a payment that a webhook names. Row-level security shows nothing before this lookup.
create or replace function ticketing.organization_of_payment(p_provider text, p_payment text) returns uuid
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select organization_id from ticketing.payments where provider = p_provider and provider_payment_id = p_payment
$$;

revoke all on function ticketing.organization_of_payment(text, text) from public;
grant execute on function ticketing.organization_of_payment(text, text) to onceward_app, onceward_engine;
