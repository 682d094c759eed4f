-- Venues, events, seats, holds, checkouts, payments, tickets, scans and refunds. Every row belongs to one organization.

create schema ticketing;
grant usage on schema ticketing to onceward_app, onceward_engine;

-- The key for signatures of tickets and orders: random, one for each organization, never shown.
create table ticketing.signing_keys (
    organization_id uuid primary key default onceward.organization(),
    key bytea not null,                    -- encrypted: 32 random bytes
    created_at timestamptz not null default onceward.now()
);
select onceward.protect('ticketing.signing_keys');

create table ticketing.venues (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    name text not null check (length(name) between 1 and 200),
    address text not null default '',
    timezone text not null default 'UTC',
    created_at timestamptz not null default onceward.now(),
    unique (organization_id, name),
    unique (id, organization_id)
);
select onceward.protect('ticketing.venues');

create table ticketing.events (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    venue_id uuid not null,
    name text not null check (length(name) between 1 and 200),
    description text not null default '',
    starts_at timestamptz not null,
    ends_at timestamptz not null,
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    status text not null default 'draft' check (status in ('draft', 'on_sale', 'closed', 'cancelled')),
    fee_bps int not null default 250 check (fee_bps between 0 and 10000),
    fee_paid_by text not null default 'buyer' check (fee_paid_by in ('buyer', 'organizer')),
    tax_bps int not null default 0 check (tax_bps between 0 and 10000),
    tax_included boolean not null default false,
    hold_s int not null default 300 check (hold_s between 30 and 3600),
    checkout_s int not null default 900 check (checkout_s between 60 and 7200),
    most_per_order int not null default 10 check (most_per_order between 1 and 100),
    capacity bigint not null default 0,
    refund_policy text not null default '',
    support_contact text not null default '',
    alert_percent int not null default 90 check (alert_percent between 1 and 100),
    alerted_at timestamptz,
    dispute_policy text not null default 'freeze' check (dispute_policy in ('freeze', 'keep')),
    cancelled_at timestamptz,                   -- the workflow `event:<id>` refunds the money
    cancel_reason text,
    created_at timestamptz not null default onceward.now(),
    check (ends_at > starts_at),
    unique (venue_id, name, starts_at),
    unique (id, organization_id),
    foreign key (venue_id, organization_id) references ticketing.venues (id, organization_id)
);
comment on column ticketing.events.dispute_policy is
    'freeze: tickets of a disputed payment are not admitted until the dispute is won, and become void when it is lost; keep: they stay valid.';
create index events_by_start on ticketing.events (organization_id, starts_at);
select onceward.protect('ticketing.events');

-- A price category: numbered seats in rows, or a number of places without seats.
create table ticketing.sections (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    name text not null check (length(name) between 1 and 60),
    kind text not null check (kind in ('seated', 'general')),
    price_cents bigint not null check (price_cents between 0 and 100000000),
    position int not null default 0,
    unique (event_id, name),
    unique (id, organization_id),
    foreign key (event_id, organization_id) references ticketing.events (id, organization_id)
);
select onceward.protect('ticketing.sections');

-- The capacity pools: one for each row of seats, one for a section without seats. Pools of a section have ascending ids.
create table ticketing.pools (
    pool_id bigint primary key,
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    section_id uuid not null,
    key text not null,
    row_name text,
    states text,                                -- one letter per seat of the row: f free, h held, s sold, x blocked
    foreign key (section_id, organization_id) references ticketing.sections (id, organization_id),
    unique (pool_id, organization_id)
) with (fillfactor = 50);
comment on column ticketing.pools.states is
    'The row of the seat map. A trigger of the seats keeps it, so that the map of a large house is read in a few rows.';
create index pools_by_event on ticketing.pools (event_id);
select onceward.protect('ticketing.pools');

create table ticketing.seats (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    section_id uuid not null,
    pool_id bigint not null,
    row_name text not null,
    number int not null,                        -- its position in the row, from 1
    ordinal int not null,                       -- its position in the section's list of seats
    label text not null,
    pool_key text not null,
    status text not null default 'available' check (status in ('available', 'held', 'sold', 'blocked')),
    version int not null default 1,
    seat_hold_id uuid,
    held_until timestamptz,
    locked_at timestamptz,
    ticket_id uuid,
    sold_at timestamptz,
    check ((status = 'sold') = (ticket_id is not null)),
    check ((status = 'held') = (seat_hold_id is not null)),
    unique (event_id, label),
    unique (id, organization_id),
    foreign key (section_id, organization_id) references ticketing.sections (id, organization_id),
    foreign key (pool_id, organization_id) references ticketing.pools (pool_id, organization_id)
) with (fillfactor = 70);
create index seats_held on ticketing.seats (event_id, held_until) where status = 'held';
select onceward.protect('ticketing.seats');

create table ticketing.coupons (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid,
    code text not null check (code = upper(code) and length(code) between 2 and 40),
    percent_bps int check (percent_bps between 1 and 10000),
    amount_cents bigint check (amount_cents > 0),
    most_uses int check (most_uses > 0),
    valid_until timestamptz,
    created_at timestamptz not null default onceward.now(),
    check ((percent_bps is null) <> (amount_cents is null)),
    unique (organization_id, code),
    unique (id, organization_id)
);
select onceward.protect('ticketing.coupons');

create table ticketing.checkouts (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    basket text not null,
    user_id text,
    email text not null,
    name text not null default '',
    locale text,
    status text not null default 'started'
        check (status in ('started', 'completed', 'expired', 'abandoned', 'failed', 'refunded')),
    currency text not null,
    subtotal_cents bigint not null check (subtotal_cents >= 0),
    discount_cents bigint not null check (discount_cents between 0 and subtotal_cents),
    tax_cents bigint not null check (tax_cents >= 0),
    platform_fee_cents bigint not null check (platform_fee_cents >= 0),
    total_cents bigint not null check (total_cents >= 0),
    refunded_cents bigint not null default 0 check (refunded_cents between 0 and total_cents),
    fee_paid_by text not null,
    tax_included boolean not null,
    coupon_id uuid,
    coupon_code text,
    provider text,
    provider_session text,
    payment_url text,
    payment_opening int not null default 0,     -- how many payment pages were opened; part of the key of each page
    payment_opened_at timestamptz,
    payment_expires_at timestamptz,             -- by the clock of the payment service, not the business clock
    payment_reference text,
    provider_payment_id text,
    journal_id bigint,
    reserved_at timestamptz not null default onceward.now(),
    started_at timestamptz not null default onceward.now(),
    expires_at timestamptz not null,
    completed_at timestamptz,
    ended_at timestamptz,
    result jsonb,
    payment_closed_at timestamptz,
    link_version int not null default 1,        -- a higher version revokes the links of the order
    unique (id, organization_id),
    foreign key (event_id, organization_id) references ticketing.events (id, organization_id),
    foreign key (coupon_id, organization_id) references ticketing.coupons (id, organization_id)
);
create index checkouts_open on ticketing.checkouts (expires_at) where status in ('started', 'failed');
create index checkouts_unsettled on ticketing.checkouts (started_at)
    where status in ('started', 'expired', 'abandoned', 'failed') and provider_session is not null;
create index checkouts_newest on ticketing.checkouts (organization_id, started_at, id);
create index checkouts_by_event on ticketing.checkouts (event_id, status);
create index checkouts_by_coupon on ticketing.checkouts (coupon_id) where coupon_id is not null;
create index checkouts_by_session on ticketing.checkouts (provider_session) where provider_session is not null;
select onceward.protect('ticketing.checkouts');

create table ticketing.seat_holds (
    id uuid not null default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    section_id uuid not null,
    seat_id uuid,
    claim_id bigint not null unique,
    basket text not null,
    checkout_id uuid,                           -- the only checkout that can pay for it; changed under the lock of the checkout
    status text not null default 'active' check (status in ('active', 'converted', 'expired', 'cancelled')),
    held_until timestamptz not null,
    converted_at timestamptz,
    created_at timestamptz not null default onceward.now(),
    foreign key (seat_id, organization_id) references ticketing.seats (id, organization_id),
    foreign key (checkout_id, organization_id) references ticketing.checkouts (id, organization_id),
    primary key (id, organization_id)
);
create index seat_holds_by_basket on ticketing.seat_holds (basket) where status = 'active';
create index seat_holds_by_seat on ticketing.seat_holds (seat_id) where status = 'active';
create index seat_holds_due on ticketing.seat_holds (held_until) where status = 'active';
select onceward.protect('ticketing.seat_holds');

create table ticketing.checkout_items (
    id uuid not null default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    checkout_id uuid not null,
    section_id uuid not null,
    seat_id uuid,
    seat_hold_id uuid not null,
    price_cents bigint not null,
    discount_cents bigint not null,
    tax_cents bigint not null,
    fee_cents bigint not null,
    position int not null,
    foreign key (checkout_id, organization_id) references ticketing.checkouts (id, organization_id),
    primary key (id, organization_id),
    foreign key (seat_hold_id, organization_id) references ticketing.seat_holds (id, organization_id)
);
create index checkout_items_by_checkout on ticketing.checkout_items (checkout_id);
select onceward.protect('ticketing.checkout_items');

create table ticketing.tickets (
    id uuid primary key,
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    section_id uuid not null,
    seat_id uuid,
    checkout_id uuid not null,
    item_id uuid not null,
    user_id text,
    holder_email text,
    holder_name text not null default '',
    status text not null default 'active' check (status in ('active', 'scanned', 'void')),
    ticket_code text not null unique check (ticket_code ~ '^[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{4}){2}$'),
    qr_code_url text,
    qr_generated_at timestamptz,
    payment_reference text,
    purchased_at timestamptz not null default onceward.now(),
    scanned_at timestamptz,
    scanned_gate text,
    frozen_at timestamptz,                      -- since when a dispute about its payment has been open
    void_reason text,
    transferred_from uuid,                      -- the ticket of the previous holder; set: it belongs to its holder, not to the buyer
    transfers int not null default 0,           -- how often it has changed hands
    created_at timestamptz not null default onceward.now(),
    updated_at timestamptz not null default onceward.now(),
    foreign key (checkout_id, organization_id) references ticketing.checkouts (id, organization_id),
    foreign key (item_id, organization_id) references ticketing.checkout_items (id, organization_id)
);
create unique index tickets_one_per_seat on ticketing.tickets (seat_id) where status <> 'void';
create unique index tickets_one_per_item on ticketing.tickets (item_id) where status <> 'void';
create index tickets_newest on ticketing.tickets (organization_id, purchased_at, id);
create index tickets_by_checkout on ticketing.tickets (checkout_id);
create index tickets_by_event on ticketing.tickets (event_id);
comment on index ticketing.tickets_one_per_seat is 'No seat has two valid tickets, whichever path sold them.';
select onceward.protect('ticketing.tickets');

-- Payments at the provider: one row for each, also for those that bought nothing.
create table ticketing.payments (
    id uuid not null default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    checkout_id uuid,
    provider text not null,
    provider_payment_id text not null,
    reference text not null,
    amount_cents bigint not null check (amount_cents > 0),
    refunded_cents bigint not null default 0 check (refunded_cents between 0 and amount_cents),
    currency text not null,
    purpose text not null check (purpose in ('sale', 'refused')),
    reason text,
    journal_id bigint,
    received_at timestamptz not null default onceward.now(),
    unique (provider, provider_payment_id),
    primary key (id, organization_id)
);
create index payments_by_checkout on ticketing.payments (checkout_id);
select onceward.protect('ticketing.payments');

create table ticketing.refunds (
    id uuid not null default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    payment_id uuid not null,
    checkout_id uuid,
    ticket_ids uuid[] not null default '{}',
    amount_cents bigint not null check (amount_cents > 0),
    parts jsonb,                                -- the entries to reverse, and how much of each; null: the rest of all
    currency text not null,
    reason text not null,
    -- pending: requested, or accepted by the service but not final; done: the buyer has the money;
    -- failed: the buyer does not have the money, and an operator must repeat the refund or pay it another way.
    status text not null default 'pending' check (status in ('pending', 'done', 'failed')),
    attempt int not null default 1 check (attempt > 0),
    method text not null default 'service' check (method in ('service', 'manual')),
    provider_refund_id text,
    provider_status text,                       -- the status as the payment service names it
    earlier_references text[] not null default '{}',  -- ids of failed attempts at the service
    covered_by uuid,  -- the refund at the service that also paid this one
    failure text,
    note text,                                  -- how it was paid, if the service did not pay it
    requested_by text not null,
    requested_at timestamptz not null default onceward.now(),
    attempted_at timestamptz not null default onceward.now(),
    checked_at timestamptz not null default onceward.now(),
    done_at timestamptz,
    failed_at timestamptz,
    journal_id bigint,
    owed_journal_id bigint,                     -- money that came back after it was booked as refunded; it is still owed
    primary key (id, organization_id),
    foreign key (payment_id, organization_id) references ticketing.payments (id, organization_id),
    foreign key (covered_by, organization_id) references ticketing.refunds (id, organization_id)
);
create index refunds_by_payment on ticketing.refunds (payment_id);
create index refunds_to_follow on ticketing.refunds (checked_at) where provider_refund_id is not null;
create index refunds_failed on ticketing.refunds (failed_at) where status = 'failed';
create index refunds_by_checkout on ticketing.refunds (checkout_id);
select onceward.protect('ticketing.refunds');

-- Invoice numbers without gaps, one series per organization. A batch job locks the counter after the sales, so that sales
-- do not wait for each other. Rows are never changed: a refund does not take the number back.
create table ticketing.invoice_counters (
    organization_id uuid primary key default onceward.organization(),
    last_number bigint not null default 0 check (last_number >= 0)
);
select onceward.protect('ticketing.invoice_counters');
create table ticketing.invoices (
    organization_id uuid not null default onceward.organization(),
    number bigint not null check (number > 0),
    checkout_id uuid not null unique,
    issued_at timestamptz not null default onceward.now(),
    primary key (organization_id, number),
    foreign key (checkout_id, organization_id) references ticketing.checkouts (id, organization_id)
);
select onceward.protect('ticketing.invoices');
revoke update, delete on ticketing.invoices from onceward_app, onceward_engine;

create table ticketing.scans (
    id uuid primary key,
    organization_id uuid not null default onceward.organization(),
    ticket_id uuid,
    event_id uuid,
    outcome text not null check (outcome in ('admitted', 'already_used', 'void', 'unknown', 'wrong_event', 'forged', 'frozen')),
    gate text not null default '',
    scanned_by text not null,
    scanned_at timestamptz not null default onceward.now()
);
create index scans_newest on ticketing.scans (organization_id, scanned_at, id);
create index scans_by_ticket on ticketing.scans (ticket_id);
select onceward.protect('ticketing.scans');

-- The sales funnel: one row per event and day. A job writes it, and a failure of the job does no harm.
create table ticketing.sales_funnel (
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    day date not null,
    purchases bigint not null default 0,
    seats bigint not null default 0,
    revenue_cents bigint not null default 0,
    coupon_purchases bigint not null default 0,
    coupon_discount_cents bigint not null default 0,
    conversion_s_total bigint not null default 0,
    primary key (event_id, day)
);
select onceward.protect('ticketing.sales_funnel');
create table ticketing.purchases_counted (
    organization_id uuid not null default onceward.organization(),
    checkout_id uuid primary key
);
select onceward.protect('ticketing.purchases_counted');

select onceward.watch('ticketing.events', 'id');
select onceward.watch('ticketing.pools', 'event_id');
select onceward.watch('ticketing.seat_holds', 'event_id');
select onceward.watch('ticketing.tickets', 'checkout_id');
select onceward.watch('ticketing.tickets', 'event_id');
select onceward.watch('ticketing.checkouts', 'id');

-- Refunds that somebody made at the payment service itself are booked once, in the same table as ours.

create unique index refunds_by_service_id on ticketing.refunds (payment_id, provider_refund_id)
    where provider_refund_id is not null;
comment on index ticketing.refunds_by_service_id is 'A refund of the payment service is booked once, whoever reports it.';

-- Refunds of payments that are not known yet, because webhooks arrive in any order. Their organization is not known either, so
-- only the functions of this package read the table. `organization_id` is that of the webhook's source; null: the platform.
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

-- Payment pages that were replaced, for example because the buyer chose another payment service. The buyer may still have paid
-- on them, so a job asks the service about them until they have ended. A trigger fills the table, so that no page is missed.
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

-- Disputes and reversals: the buyer's bank or PayPal takes the money back until the dispute is decided.
create table ticketing.disputes (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    payment_id uuid not null,
    checkout_id uuid,
    provider_dispute_id text not null,
    amount_cents bigint not null check (amount_cents > 0),
    currency text not null,
    reason text not null default '',
    status text not null default 'open' check (status in ('open', 'won', 'lost')),
    provider_status text not null,              -- the status as the payment service names it
    opened_at timestamptz not null default onceward.now(),
    closed_at timestamptz,
    journal_id bigint,                          -- the journal that took the money out of our account
    closing_journal_id bigint,                  -- the journal that booked it back, or as lost
    unique (payment_id, provider_dispute_id),
    foreign key (payment_id, organization_id) references ticketing.payments (id, organization_id)
);
create index disputes_by_checkout on ticketing.disputes (checkout_id);
select onceward.protect('ticketing.disputes');
