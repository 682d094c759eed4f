-- Return whether refunds of this payment arrived before it.
create or replace function ticketing.has_early_refunds(p_provider text, p_payment text) returns boolean
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (select from ticketing.early_refunds e where e.provider = p_provider and e.provider_payment_id = p_payment);
end
$$;

revoke all on function ticketing.has_early_refunds(text, text) from public;
grant execute on function ticketing.has_early_refunds(text, text) to onceward_app, onceward_engine;
