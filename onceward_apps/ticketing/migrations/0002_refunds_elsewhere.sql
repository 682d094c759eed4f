-- Refunds that somebody made at the payment service itself: booked once, beside those that we made.

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

-- Refunds of payments that are not known here (yet): webhooks come in any order. Whose they are is not known either, so
-- nobody reads this table but the functions below. `organization_id` is that of the webhook's source; null: the platform's.
create table ticketing.early_refunds (
    provider text not null,
    provider_payment_id text not null,
    provider_refund_id text not null,
    organization_id uuid,
    amount_cents bigint not null check (amount_cents > 0),
    provider_status text not null,
    received_at timestamptz not null default onceward.now(),
    unique nulls not distinct (provider, provider_payment_id, provider_refund_id, organization_id)
);
alter table ticketing.early_refunds enable row level security;
create policy engine on ticketing.early_refunds for all to onceward_engine using (true) with check (true);
grant select, insert, update, delete on ticketing.early_refunds to onceward_engine;
create index early_refunds_by_age on ticketing.early_refunds (received_at);

create function ticketing.keep_early_refund(
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

-- Of a source of another organization nothing is believed about this organization's payments.
create function ticketing.take_early_refunds(p_provider text, p_payment text)
    returns table (provider_refund_id text, amount_cents bigint, provider_status text)
    language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    delete from ticketing.early_refunds e
     where e.provider = p_provider and e.provider_payment_id = p_payment
       and (e.organization_id is null or e.organization_id = onceward.organization())
    returning e.provider_refund_id, e.amount_cents, e.provider_status
$$;
revoke all on function ticketing.take_early_refunds(text, text) from public;
grant execute on function ticketing.take_early_refunds(text, text) to onceward_app, onceward_engine;

-- Payment pages that were replaced by another, such as when the buyer turned to another payment service. They may have
-- been paid all the same: they are asked about until they have ended. A trigger, so that no way of replacing forgets one.
create table ticketing.older_pages (
    organization_id uuid not null,
    checkout_id uuid not null,
    provider text not null,
    provider_session text not null,
    replaced_at timestamptz not null default onceward.now(),
    ended_at timestamptz,
    primary key (checkout_id, provider_session),
    foreign key (checkout_id, organization_id) references ticketing.checkouts (id, organization_id)
);
create index older_pages_open on ticketing.older_pages (replaced_at) where ended_at is null;
select onceward.protect('ticketing.older_pages');

create function ticketing.keep_older_page() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    insert into ticketing.older_pages (organization_id, checkout_id, provider, provider_session)
    values (old.organization_id, old.id, old.provider, old.provider_session)
    on conflict (checkout_id, provider_session) do nothing;
    return null;
end
$$;
create trigger keep_older_page after update of provider_session on ticketing.checkouts
    for each row when (old.provider_session is not null and old.provider_session is distinct from new.provider_session)
    execute function ticketing.keep_older_page();

-- Disputes and reversals: the buyer's bank or PayPal takes money back, without asking us, until it is decided.
create table ticketing.disputes (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    payment_id uuid not null references ticketing.payments (id),
    checkout_id uuid,
    provider_dispute_id text not null,
    amount_cents bigint not null check (amount_cents > 0),
    currency text not null,
    reason text not null default '',
    status text not null default 'open' check (status in ('open', 'won', 'lost')),
    provider_status text not null,              -- in the words of the payment service
    opened_at timestamptz not null default onceward.now(),
    closed_at timestamptz,
    journal_id bigint,                          -- the money was taken out of our account
    closing_journal_id bigint,                  -- it came back, or is lost
    unique (payment_id, provider_dispute_id)
);
create index disputes_by_checkout on ticketing.disputes (checkout_id);
select onceward.protect('ticketing.disputes');

alter table ticketing.events add column dispute_policy text not null default 'freeze'
    check (dispute_policy in ('freeze', 'keep'));
comment on column ticketing.events.dispute_policy is
    'freeze: tickets of a disputed payment admit nobody until it is won, and are void when it is lost; keep: they stay valid.';
alter table ticketing.tickets add column frozen_at timestamptz;
