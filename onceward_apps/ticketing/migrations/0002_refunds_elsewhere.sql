-- Refunds that somebody made at the payment service itself: booked once, beside those that we made.

alter table ticketing.payments
    add column refunded_seen_cents bigint not null default 0 check (refunded_seen_cents >= 0);
comment on column ticketing.payments.refunded_seen_cents is
    'The most that the service has told us it gave back of this payment; what our own refunds do not explain was made there.';

create unique index refunds_by_service_id on ticketing.refunds (payment_id, provider_refund_id)
    where provider_refund_id is not null;
comment on index ticketing.refunds_by_service_id is 'A refund of the payment service is booked once, whoever tells of it.';

-- A webhook names the payment; whose it is has to be found before row-level security lets one look.
create function ticketing.organization_of_payment(p_provider text, p_payment text) returns uuid
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select organization_id from ticketing.payments where provider = p_provider and provider_payment_id = p_payment
$$;
revoke all on function ticketing.organization_of_payment(text, text) from public;
grant execute on function ticketing.organization_of_payment(text, text) to onceward_app, onceward_engine;
