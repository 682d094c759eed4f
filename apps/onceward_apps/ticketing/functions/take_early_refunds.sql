-- Take the refunds that arrived before this payment. Refunds from a source of another organization are ignored.
create or replace function ticketing.take_early_refunds(p_provider text, p_payment text)
    returns table (provider_refund_id text, amount_cents bigint, provider_status text)
    language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    delete from ticketing.early_refunds e
     where e.provider = p_provider and e.provider_payment_id = p_payment
       and (e.organization_id is null or e.organization_id = onceward.organization())
    returning e.provider_refund_id, e.amount_cents, e.provider_status
$$;

revoke all on function ticketing.take_early_refunds(text, text) from public;
grant execute on function ticketing.take_early_refunds(text, text) to onceward_app, onceward_engine;
