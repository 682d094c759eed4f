-- Keep a refund that arrived before its payment, until the payment takes it over.
create or replace function ticketing.keep_early_refund(
    p_provider text, p_payment text, p_refund text, p_amount bigint, p_status text) returns void
    language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    insert into ticketing.early_refunds as e
        (provider, provider_payment_id, provider_refund_id, organization_id, amount_cents, provider_status)
    values (p_provider, p_payment, p_refund, onceward.organization(), p_amount, p_status)
    on conflict (provider, provider_payment_id, provider_refund_id, organization_id)
    do update set provider_status = excluded.provider_status
$$;

revoke all on function ticketing.keep_early_refund(text, text, text, bigint, text) from public;
grant execute on function ticketing.keep_early_refund(text, text, text, bigint, text) to onceward_app, onceward_engine;
