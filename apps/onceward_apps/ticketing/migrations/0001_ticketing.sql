-- Venues, events, seats, holds, checkouts, tickets and scans. Every row belongs to one organization. The engine keeps payments, refunds
-- and disputes: the subject of a payment is a checkout.

create schema ticketing;
grant usage on schema ticketing to onceward_app, onceward_engine;

-- The key for signatures of tickets and orders: random, one for each organization, never shown.
create table ticketing.signing_keys (
    organization_id uuid primary key default onceward.organization(),
    key bytea not null,                    -- encrypted: 32 random bytes
    created_at timestamptz not null default onceward.now()
);
select onceward.protect('ticketing.signing_keys');

-- What the platform takes of each sale of an organizer, if it is not the setting `fee_bps`. Only the platform changes it.
create table ticketing.fees (
    organization_id uuid primary key default onceward.organization(),
    fee_bps int not null check (fee_bps between 0 and 10000)
);
select onceward.protect('ticketing.fees');
revoke insert, update, delete on ticketing.fees from onceward_app;

-- How an organizer sells: the sites that may show the shop in a frame, and how buyers pay without a payment service.
create table ticketing.shops (
    organization_id uuid primary key default onceward.organization(),
    sites text[] not null default '{}',         -- origins: https://example.org
    about text not null default '',             -- on the organizer's page
    bank_account text not null default '',      -- where buyers transfer money to; empty: no bank transfers
    transfer_days int not null default 7 check (transfer_days between 1 and 30)  -- how long places wait for a transfer
);
select onceward.protect('ticketing.shops');

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
create index venues_newest on ticketing.venues (organization_id, created_at, id);
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
    jurisdiction text,                          -- whose rule set the tax; null: the organizer
    tax_category text,
    hold_s int not null default 300 check (hold_s between 30 and 3600),
    checkout_s int not null default 900 check (checkout_s between 60 and 7200),
    most_per_order int not null default 10 check (most_per_order between 1 and 100),
    capacity bigint not null default 0,
    blocked bigint not null default 0 check (blocked between 0 and capacity),  -- seats that the organizer took off sale
    refund_policy text not null default '',
    support_contact text not null default '',
    alert_percent int not null default 90 check (alert_percent between 1 and 100),
    alerted_at timestamptz,
    dispute_policy text not null default 'freeze' check (dispute_policy in ('freeze', 'keep')),
    cancelled_at timestamptz,                   -- the workflow `event:<id>` refunds the money
    cancel_reason text,
    moved_at timestamptz,                       -- when its date was changed last
    moved_from timestamptz,                     -- the start before that
    move_reason text,
    cancel_hours int check (cancel_hours between 0 and 8760),  -- until so long before the start buyers may cancel; null: never
    refund_until timestamptz,                   -- until when buyers from before the change may take their money back
    date_version int not null default 0,        -- how often its date was changed: the version of calendar entries
    doors_open_at timestamptz,                  -- before it nobody is admitted; null: at any time
    doors_close_at timestamptz,                 -- after it nobody is admitted
    has_reentry boolean not null default false, -- whether guests who were scanned on their way out may come back
    has_waitlist boolean not null default false, -- whether somebody waits: then places are held for those who wait only
    has_resale boolean not null default false,  -- whether buyers may give tickets back while somebody waits
    offer_s int not null default 43200 check (offer_s between 900 and 604800),  -- how long an offer of the waitlist lasts
    sale_from timestamptz,                      -- before it only a presale code opens the sale; null: as soon as it is on sale
    sale_until timestamptz,                     -- after it nobody can choose places
    most_per_customer int check (most_per_customer between 1 and 1000),  -- tickets that one address may have in all its orders
    group_from int check (group_from between 2 and 1000),  -- from so many tickets in one order on, `group_bps` is taken off
    group_bps int check (group_bps between 1 and 10000),
    has_questions boolean not null default false, -- whether buyers are asked something: then a checkout needs answers
    series_id uuid,                             -- the first event of the series of dates that it belongs to
    created_at timestamptz not null default onceward.now(),
    check (ends_at > starts_at),
    check (doors_close_at > doors_open_at),
    check (sale_until > sale_from),
    check ((group_from is null) = (group_bps is null)),
    unique (venue_id, name, starts_at),
    unique (id, organization_id),
    foreign key (series_id, organization_id) references ticketing.events (id, organization_id),
    foreign key (venue_id, organization_id) references ticketing.venues (id, organization_id)
);
comment on column ticketing.events.dispute_policy is
    'freeze: tickets of a disputed payment are not admitted until the dispute is won, '
    'and become void when it is lost; keep: they stay valid.';
create index events_by_start on ticketing.events (organization_id, starts_at);
create index events_with_line on ticketing.events (id) where has_waitlist;
create index events_of_series on ticketing.events (series_id, starts_at) where series_id is not null;
select onceward.protect('ticketing.events');

-- A price category: numbered seats in rows, a number of places without seats, or an add-on such as a parking space, which is sold with
-- tickets and admits nobody.
create table ticketing.sections (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    name text not null check (length(name) between 1 and 60),
    kind text not null check (kind in ('seated', 'general', 'addon')),
    price_cents bigint not null check (price_cents between 0 and 100000000),
    position int not null default 0,
    is_hidden boolean not null default false,   -- only who has a presale code sees it
    sale_from timestamptz,                      -- its own window, inside that of the event
    sale_until timestamptz,
    check (sale_until > sale_from),
    unique (event_id, name),
    unique (id, organization_id),
    foreign key (event_id, organization_id) references ticketing.events (id, organization_id)
);
create index sections_by_position on ticketing.sections (organization_id, position, id);
select onceward.protect('ticketing.sections');

-- Another price of a section, for example for students. Without one, a place has the price of its section.
create table ticketing.ticket_types (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    section_id uuid not null,
    name text not null check (length(name) between 1 and 60),
    price_cents bigint not null check (price_cents between 0 and 100000000),
    is_hidden boolean not null default false,   -- only who has a presale code can choose it
    ended_at timestamptz,                       -- since when nobody can choose it
    created_at timestamptz not null default onceward.clock(),
    unique (section_id, name),
    unique (id, organization_id),
    foreign key (section_id, organization_id) references ticketing.sections (id, organization_id)
);
create index ticket_types_of_event on ticketing.ticket_types (event_id, created_at);
create index ticket_types_newest on ticketing.ticket_types (organization_id, created_at, id);
select onceward.protect('ticketing.ticket_types');

-- A code with which buyers choose places before the sale begins, and see what is hidden.
create table ticketing.access_codes (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    section_id uuid,                            -- the section that it opens; null: all of them
    code text not null check (code = upper(code) and length(code) between 6 and 40),
    most_tickets int check (most_tickets > 0),  -- how many tickets all its users together may have
    valid_until timestamptz,
    created_at timestamptz not null default onceward.clock(),
    unique (event_id, code),
    unique (id, organization_id),
    foreign key (event_id, organization_id) references ticketing.events (id, organization_id),
    foreign key (section_id, organization_id) references ticketing.sections (id, organization_id)
);
create index access_codes_newest on ticketing.access_codes (organization_id, created_at, id);
select onceward.protect('ticketing.access_codes');

-- What buyers are asked: once per order, or about each ticket. The answers are in `checkouts.answers`.
create table ticketing.questions (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    title text not null check (length(title) between 1 and 200),
    about text not null check (about in ('order', 'ticket')),
    choices text[] not null default '{}',       -- empty: any text
    is_required boolean not null default false,
    ended_at timestamptz,                       -- since when nobody is asked
    created_at timestamptz not null default onceward.clock(),
    unique (id, organization_id),
    foreign key (event_id, organization_id) references ticketing.events (id, organization_id)
);
create index questions_of_event on ticketing.questions (event_id, created_at);
create index questions_newest on ticketing.questions (organization_id, created_at, id);
select onceward.protect('ticketing.questions');

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
    currency text check (currency ~ '^[A-Z]{3}$'),  -- of the amount: it counts for events in this currency only
    most_uses int check (most_uses > 0),
    valid_until timestamptz,
    created_at timestamptz not null default onceward.now(),
    check ((percent_bps is null) <> (amount_cents is null)),
    check ((amount_cents is null) = (currency is null)),
    unique (organization_id, code),
    unique (id, organization_id),
    foreign key (event_id, organization_id) references ticketing.events (id, organization_id)
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
    refunded_cents bigint not null default 0 check (refunded_cents between 0 and total_cents),  -- what the buyer has back
    fee_paid_by text not null,
    tax_included boolean not null,
    coupon_id uuid,
    coupon_code text,
    group_discount_cents bigint not null default 0 check (group_discount_cents between 0 and discount_cents),  -- a part of it
    customer text,                              -- the address in small letters, if the event limits the tickets of each
    answers jsonb,                              -- {"order": {question: answer}, "tickets": [{question: answer}, ...]}
    provider text,                              -- how it was paid
    payment_id uuid,                            -- the payment that bought it; null: not paid, or it costs nothing
    payment_reference text,                     -- the event that reported the payment
    provider_payment_id text,
    transfer_reference text check (transfer_reference ~ '^[0-9A-HJKMNP-TV-Z]{10}$'),  -- what the buyer writes on a bank transfer
    journal_id bigint,                          -- entries that move no money of the buyer: discount, fee of the organizer
    reserved_at timestamptz not null default onceward.now(),
    started_at timestamptz not null default onceward.now(),
    expires_at timestamptz not null,
    completed_at timestamptz,
    ended_at timestamptz,
    result jsonb,
    link_version int not null default 1,        -- a higher version revokes the links of the order
    unique (id, organization_id),
    foreign key (event_id, organization_id) references ticketing.events (id, organization_id),
    foreign key (coupon_id, organization_id) references ticketing.coupons (id, organization_id)
);
create index checkouts_open on ticketing.checkouts (expires_at) where status in ('started', 'failed');
create index checkouts_newest on ticketing.checkouts (organization_id, started_at, id);
create index checkouts_by_event on ticketing.checkouts (event_id, status);
create index checkouts_of_event_newest on ticketing.checkouts (event_id, started_at, id);
create index checkouts_words on ticketing.checkouts
    using gin (to_tsvector('simple', coalesce(coalesce(nullif(name, ''), email), '') || ' ' || coalesce(email, '')));
create unique index checkouts_by_transfer on ticketing.checkouts (transfer_reference) where transfer_reference is not null;
create index checkouts_by_customer on ticketing.checkouts (event_id, customer) where customer is not null;
create index checkouts_by_coupon on ticketing.checkouts (coupon_id) where coupon_id is not null;
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
    type_id uuid,                               -- the ticket type that the buyer chose; null: the price of the section
    code_id uuid,                               -- the presale code without which it would not be for sale
    status text not null default 'active' check (status in ('active', 'converted', 'expired', 'cancelled')),
    held_until timestamptz not null,
    converted_at timestamptz,
    created_at timestamptz not null default onceward.now(),
    foreign key (seat_id, organization_id) references ticketing.seats (id, organization_id),
    foreign key (checkout_id, organization_id) references ticketing.checkouts (id, organization_id),
    foreign key (type_id, organization_id) references ticketing.ticket_types (id, organization_id),
    foreign key (code_id, organization_id) references ticketing.access_codes (id, organization_id),
    primary key (id, organization_id)
);
create index seat_holds_by_code on ticketing.seat_holds (code_id) where code_id is not null;
create index seat_holds_by_basket on ticketing.seat_holds (basket) where status = 'active';
create index seat_holds_by_seat on ticketing.seat_holds (seat_id) where status = 'active';
create index seat_holds_by_day on ticketing.seat_holds (event_id, created_at);
create index seat_holds_due on ticketing.seat_holds (held_until) where status = 'active';
select onceward.protect('ticketing.seat_holds');

create table ticketing.checkout_items (
    id uuid not null default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    checkout_id uuid not null,
    section_id uuid not null,
    seat_id uuid,
    seat_hold_id uuid not null,
    type_id uuid,
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
    outside_at timestamptz,                     -- since when its holder, who had entered, has been outside again
    frozen_at timestamptz,                      -- since when a dispute about its payment has been open
    void_reason text,
    refunded_at timestamptz,                    -- since when its money goes back; a ticket may be void without that
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
create index tickets_words on ticketing.tickets using gin (to_tsvector('simple',
    coalesce(coalesce(nullif(holder_name, ''), holder_email, 'Nobody'), '') || ' ' || coalesce(ticket_code, '')));
create index tickets_by_checkout on ticketing.tickets (checkout_id);
create index tickets_by_event on ticketing.tickets (event_id, updated_at);
comment on index ticketing.tickets_one_per_seat is 'No seat has two valid tickets, whichever path sold them.';
select onceward.protect('ticketing.tickets');

-- Invoice numbers without gaps, one series per organization. A batch job locks the counter after the sales, so that sales
-- do not wait for each other. Rows are never changed: a refund does not take the number back.
create table ticketing.invoice_counters (
    organization_id uuid primary key default onceward.organization(),
    last_number bigint not null default 0 check (last_number >= 0)
);
select onceward.protect('ticketing.invoice_counters');
-- Invoices and credit notes as they were issued. `document` has all that they say; rows never change.
create table ticketing.invoices (
    organization_id uuid not null default onceward.organization(),
    number bigint not null check (number > 0),
    kind text not null check (kind in ('invoice', 'credit_note')),
    checkout_id uuid not null,
    version int not null default 0,             -- of the company that the invoice is for; 0 without one
    cancels bigint,                             -- the number of the invoice that a credit note is about
    refund_id uuid,                             -- the refund that caused a credit note; null: a correction
    document jsonb not null,
    issued_at timestamptz not null default onceward.now(),
    check ((kind = 'credit_note') = (cancels is not null)),
    primary key (organization_id, number),
    foreign key (checkout_id, organization_id) references ticketing.checkouts (id, organization_id),
    foreign key (organization_id, cancels) references ticketing.invoices (organization_id, number)
);
create unique index invoices_one_per_version on ticketing.invoices (checkout_id, kind, version) where refund_id is null;
create unique index invoices_one_per_refund on ticketing.invoices (refund_id) where refund_id is not null;
create index invoices_by_checkout on ticketing.invoices (checkout_id, number);
create index invoices_newest on ticketing.invoices (organization_id, issued_at, number);
select onceward.protect('ticketing.invoices');
revoke update, delete on ticketing.invoices from onceward_app, onceward_engine;

-- Who sells, as it stands on invoices. Without a row: the name of the organization.
create table ticketing.sellers (
    organization_id uuid primary key default onceward.organization(),
    name text not null check (length(name) between 1 and 200),
    address text not null default '',
    tax_id text not null default '',
    prefix text not null default '',
    footer text not null default ''
);
select onceward.protect('ticketing.sellers');

-- The company that an invoice is for, of orders whose buyer gave one.
create table ticketing.billing (
    checkout_id uuid primary key,
    organization_id uuid not null default onceward.organization(),
    company text not null check (length(company) between 1 and 200),
    address text not null default '',
    tax_id text not null default '',
    version int not null default 1,             -- how often it was given
    foreign key (checkout_id, organization_id) references ticketing.checkouts (id, organization_id)
);
select onceward.protect('ticketing.billing');

-- A door admits the guests of one event. Its link is the credential of the device there; ending the door revokes it.
create table ticketing.doors (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    name text not null check (length(name) between 1 and 60),
    created_at timestamptz not null default onceward.now(),
    ended_at timestamptz,
    seen_at timestamptz,                        -- when a device there fetched its list last
    unique (id, organization_id),
    foreign key (event_id, organization_id) references ticketing.events (id, organization_id)
);
create unique index doors_by_name on ticketing.doors (event_id, name) where ended_at is null;
create index doors_newest on ticketing.doors (organization_id, created_at, id);
select onceward.protect('ticketing.doors');

-- One row for each scan. A scan without a network is judged by the device and recorded later: `let_in` says what happened at
-- the door, `outcome` what was true. The two differ when a ticket was used at two doors.
create table ticketing.scans (
    id uuid primary key,
    organization_id uuid not null default onceward.organization(),
    ticket_id uuid,
    event_id uuid,
    door_id uuid,
    outcome text not null check (outcome in ('admitted', 'readmitted', 'left', 'not_inside', 'already_used', 'void', 'unknown',
        'wrong_event', 'forged', 'frozen', 'too_early', 'too_late', 'addon')),
    gate text not null default '',
    scanned_by text not null,
    scanned_at timestamptz not null default onceward.now(),
    recorded_at timestamptz not null default onceward.clock(),
    was_offline boolean not null default false,
    let_in boolean not null default false,
    undone_at timestamptz,
    undone_by text
);
create index scans_newest on ticketing.scans (organization_id, scanned_at, id);
create index scans_by_ticket on ticketing.scans (ticket_id);
create index scans_wrongly_let_in on ticketing.scans (organization_id, scanned_at)
    where let_in and outcome not in ('admitted', 'readmitted');
select onceward.protect('ticketing.scans');

-- How many guests have entered and are inside, so that counters at the doors need not count scans.
create table ticketing.door_counts (
    event_id uuid primary key,
    organization_id uuid not null default onceward.organization(),
    entered bigint not null default 0,          -- tickets that were used
    inside bigint not null default 0,           -- of those, not outside again
    foreign key (event_id, organization_id) references ticketing.events (id, organization_id)
) with (fillfactor = 50);
select onceward.protect('ticketing.door_counts');

-- Who waits for places of a sold-out event, in the order in which they came.
create table ticketing.waitlist (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    event_id uuid not null,
    email text not null,
    name text not null default '',
    locale text,
    seats int not null check (seats between 1 and 100),
    status text not null default 'waiting' check (status in ('waiting', 'offered', 'bought', 'expired', 'left')),
    basket text,                                -- holds the places that are offered
    places int,                                 -- how many are offered
    offered_at timestamptz,
    offer_until timestamptz,
    ended_at timestamptz,
    created_at timestamptz not null default onceward.clock(),
    foreign key (event_id, organization_id) references ticketing.events (id, organization_id)
);
create unique index waitlist_once on ticketing.waitlist (event_id, lower(email)) where status in ('waiting', 'offered');
create index waitlist_line on ticketing.waitlist (event_id, created_at, id) where status = 'waiting';
create index waitlist_open on ticketing.waitlist (event_id) where status in ('waiting', 'offered');
create index waitlist_email on ticketing.waitlist (organization_id, lower(email));
create index waitlist_newest on ticketing.waitlist (organization_id, created_at, id);
select onceward.protect('ticketing.waitlist');

-- What the platform owes an organizer for payments on the platform's own accounts, frozen when it was settled. Rows change once, when the
-- money was paid out.
create table ticketing.settlements (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    number int not null check (number > 0),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    since timestamptz,                          -- null: from the beginning
    until timestamptz not null,
    payout_cents bigint not null check (payout_cents > 0),
    statement jsonb not null,
    journal_id bigint,                          -- of the payout
    paid_at timestamptz,
    paid_reference text,                        -- of the bank transfer
    created_at timestamptz not null default onceward.now(),
    unique (organization_id, currency, number),
    check ((paid_at is null) = (paid_reference is null))
);
create index settlements_newest on ticketing.settlements (organization_id, created_at, id);
select onceward.protect('ticketing.settlements');
revoke insert, update, delete on ticketing.settlements from onceward_app;  -- the platform settles

-- Lines of bank statements, each recorded once. One that names an order pays it; the others wait for a person.
create table ticketing.transfers (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    line text not null check (length(line) between 1 and 100),  -- the id of the line at the bank
    amount_cents bigint not null check (amount_cents > 0),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    memo text not null default '',              -- what the sender wrote
    outcome text not null default 'unmatched' check (outcome in ('unmatched', 'sold', 'returned', 'dismissed')),
    checkout_id uuid,
    created_at timestamptz not null default onceward.clock(),
    unique (organization_id, line),
    foreign key (checkout_id, organization_id) references ticketing.checkouts (id, organization_id)
);
create index transfers_newest on ticketing.transfers (organization_id, created_at, id);
create index transfers_unmatched on ticketing.transfers (organization_id, created_at, id) where outcome = 'unmatched';
select onceward.protect('ticketing.transfers');

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
create index sales_funnel_by_day on ticketing.sales_funnel (organization_id, day);
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
select onceward.watch('ticketing.door_counts', 'event_id');
