-- Payments, refunds, disputes and plans of instalments. Amounts are minor units of the row's currency.

create table onceward.payment_accounts (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid,                         -- null: the account of the installation, for every organization without its own
    name text not null check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    service text not null,
    connected_account text,                       -- an account for which the installation's key acts
    source text,                                  -- the webhook source whose events are about this account
    cursor text,                                  -- how far the events were listed at the service
    listed_at timestamptz,
    list_at timestamptz not null default onceward.now(),
    check_at timestamptz not null default onceward.now() + interval '1 day',
    checked jsonb,                                -- what the last check found
    created_at timestamptz not null default onceward.now(),
    unique nulls not distinct (organization_id, name),
    unique nulls not distinct (source, connected_account)
);
alter table onceward.payment_accounts enable row level security;
create policy own_or_shared on onceward.payment_accounts for select to onceward_app
    using (organization_id is null or organization_id = (select onceward.organization()));
create policy engine on onceward.payment_accounts for all to onceward_engine using (true) with check (true);
grant select on onceward.payment_accounts to onceward_app;
grant select, insert, update, delete on onceward.payment_accounts to onceward_engine;

create table onceward.payments (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    account_id uuid not null references onceward.payment_accounts,
    subject_type text not null check (length(subject_type) between 1 and 100),
    subject_id text not null check (length(subject_id) between 1 and 200),
    status text not null default 'created' check (status in
        ('created', 'open', 'processing', 'paid', 'partly_refunded', 'refunded', 'disputed', 'lost', 'failed', 'expired')),
    amount bigint not null check (amount > 0),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    title text not null,
    lines jsonb not null default '[]',
    data jsonb not null default '{}',
    email text,
    locale text,
    success_url text,
    cancel_url text,
    page_number int not null default 0,           -- one payment may have several pages at the service, one after the other
    page text,                                    -- the id of the current page at the service
    page_url text,
    page_expires_at timestamptz,
    page_asked_at timestamptz,                    -- when the page with this number was first asked for
    expires_at timestamptz not null,
    superseded_at timestamptz,                    -- another page was opened for the subject
    close_at timestamptz,                         -- the page must not be paid after this time
    closed_at timestamptz,                        -- the service said that the page cannot be paid any more
    captured_at timestamptz,                      -- the last call of capture
    decision text check (decision in ('accepted', 'returned')),
    decided_reason text,
    charge text,
    receipt text,                                 -- what a person wrote about money that came without a service
    received bigint not null default 0 check (received >= 0),
    refunded bigint not null default 0 check (refunded >= 0),
    settled bigint not null default 0 check (settled >= 0),     -- the part of it that was paid another way
    withheld bigint not null default 0 check (withheld >= 0),
    owed bigint not null default 0 check (owed >= 0),           -- what the books owe to the buyer: returned or sent back by the bank
    fee bigint not null default 0,
    fee_read_at timestamptz,                      -- the fee is that of the balance, not that of a report
    booked_fee bigint not null default 0,
    fee_bookings int not null default 0,
    plan_id uuid,
    instalment int check (instalment > 0),
    failure text,
    paid_at timestamptz,
    ended_at timestamptz,
    ask_at timestamptz,                           -- when the service is asked about it; null if it has an end
    asks int not null default 0,
    erased_at timestamptz,
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    check ((decision is null) = (received = 0)),
    unique (id, organization_id)
);
create unique index payments_one_payable on onceward.payments (organization_id, subject_type, subject_id)
    where status in ('created', 'open', 'processing') and superseded_at is null;
create index payments_of_subject on onceward.payments (organization_id, subject_id, subject_type, created_at);
create index payments_by_charge on onceward.payments (organization_id, charge) where charge is not null;
create index payments_by_receipt on onceward.payments (organization_id, lower(receipt)) where receipt is not null;
create index payments_newest on onceward.payments (organization_id, created_at, id);
create index payments_of_account on onceward.payments (account_id, paid_at) where paid_at is not null;
create index payments_to_ask on onceward.payments (ask_at) where ask_at is not null;
create index payments_to_close on onceward.payments (close_at) where close_at is not null and closed_at is null;
create index payments_by_email on onceward.payments (organization_id, lower(email)) where email is not null;
select onceward.protect('onceward.payments');

create table onceward.payment_names (
    account_id uuid not null references onceward.payment_accounts,
    name text not null,                           -- the id of a page, charge, subscription or invoice at the service
    payment_id uuid not null,
    organization_id uuid not null,
    primary key (name, account_id),
    foreign key (payment_id, organization_id) references onceward.payments (id, organization_id)
);
create index payment_names_of_payment on onceward.payment_names (payment_id);
select onceward.protect('onceward.payment_names');

create table onceward.payment_shares (
    payment_id uuid not null,
    organization_id uuid not null default onceward.organization(),
    code text not null,
    number int not null,
    amount bigint not null check (amount > 0),
    drawn bigint not null default 0 check (drawn between 0 and amount),
    primary key (payment_id, number),
    foreign key (payment_id, organization_id) references onceward.payments (id, organization_id)
);
comment on table onceward.payment_shares is 'The accounts of the ledger that a payment belongs to, and how much of each share went back.';
select onceward.protect('onceward.payment_shares');

create table onceward.payment_refunds (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    payment_id uuid not null,
    status text not null default 'requested' check (status in ('requested', 'sent', 'pending', 'done', 'failed', 'settled')),
    amount bigint not null check (amount > 0),
    currency text not null,
    is_rest boolean not null default false,       -- all that remains at the service when the call arrives
    reason text not null,
    requested_by text not null,
    lines jsonb not null default '[]',
    metadata jsonb not null default '{}',         -- of the app, stored at the service
    shares jsonb not null default '[]',           -- from which shares it takes, if the app says so
    key text,                                     -- of the request: the same key twice is one refund
    attempt int not null default 1,
    called_at timestamptz,                        -- the first call of this attempt: the age of its key
    reference text,
    earlier text[] not null default '{}',         -- references of attempts that failed
    failure text,
    why text,
    note text,
    was_done boolean not null default false,
    bookings int not null default 0,              -- how many journals were posted for it
    booked bigint not null default 0,             -- what the journals have paid out for it
    ask_at timestamptz,
    asks int not null default 0,
    done_at timestamptz,
    created_at timestamptz not null default onceward.now(),
    caused_by bigint,
    unique (payment_id, reference),
    unique (payment_id, key),
    foreign key (payment_id, organization_id) references onceward.payments (id, organization_id)
);
create index payment_refunds_of_payment on onceward.payment_refunds (payment_id, created_at);
create index payment_refunds_newest on onceward.payment_refunds (organization_id, created_at, id);
create index payment_refunds_by_reference on onceward.payment_refunds (organization_id, reference) where reference is not null;
create index payment_refunds_to_ask on onceward.payment_refunds (ask_at) where ask_at is not null;
create index payment_refunds_failed on onceward.payment_refunds (created_at) where status = 'failed';
select onceward.protect('onceward.payment_refunds');

create table onceward.payment_refund_batches (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    state text not null default 'running' check (state in ('running', 'asked', 'done', 'stopped')),
    reason text not null,
    percent int,
    per_minute int not null check (per_minute > 0),
    requested_by text not null,
    key text,
    total int not null,
    asked int not null default 0,
    refused int not null default 0,
    look_at timestamptz not null default onceward.now() + interval '10 minutes',    -- when its job is looked for
    ended_at timestamptz,
    created_at timestamptz not null default onceward.now(),
    caused_by bigint,
    unique (organization_id, key),
    unique (id, organization_id)
);
comment on table onceward.payment_refund_batches is 'Many refunds that were requested at once, and are made at a rate.';
create index payment_refund_batches_newest on onceward.payment_refund_batches (organization_id, created_at, id);
create index payment_refund_batches_unfinished on onceward.payment_refund_batches (look_at) where state in ('running', 'asked');
create index payment_refund_batches_caused_by on onceward.payment_refund_batches (caused_by) where caused_by is not null;
select onceward.protect('onceward.payment_refund_batches');

create table onceward.payment_refund_items (
    batch_id uuid not null,
    number int not null,
    organization_id uuid not null default onceward.organization(),
    payment_id uuid not null,
    refund_id uuid,
    outcome text check (outcome in ('asked', 'refused')),
    why text,
    primary key (batch_id, number),
    foreign key (batch_id, organization_id) references onceward.payment_refund_batches (id, organization_id),
    foreign key (payment_id, organization_id) references onceward.payments (id, organization_id)
);
create index payment_refund_items_left on onceward.payment_refund_items (batch_id, number) where outcome is null;
select onceward.protect('onceward.payment_refund_items');

create table onceward.payment_disputes (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    payment_id uuid not null,
    reference text not null,
    status text not null check (status in ('inquiry', 'open', 'won', 'lost')),
    amount bigint not null check (amount >= 0),
    currency text not null,
    is_reversal boolean not null default false,   -- how a dispute ended, or a reversal without one: the same money is taken once
    reported bigint,                              -- what the service says that it withholds; null if it does not say
    taken bigint not null default 0,              -- what it withholds, without what the buyer got by refunds
    booked_taken bigint not null default 0,       -- posted to the account of disputed payments, or on to the losses
    booked_lost bigint not null default 0,        -- posted to the losses
    fee bigint not null default 0,
    booked_fee bigint not null default 0,
    bookings int not null default 0,
    reason text not null default '',
    said_at timestamptz,                          -- the service's time of the newest report
    ask_at timestamptz,
    asks int not null default 0,
    decided_at timestamptz,
    created_at timestamptz not null default onceward.now(),
    unique (payment_id, reference),
    foreign key (payment_id, organization_id) references onceward.payments (id, organization_id)
);
create index payment_disputes_newest on onceward.payment_disputes (organization_id, created_at, id);
create index payment_disputes_by_reference on onceward.payment_disputes (organization_id, reference);
create index payment_disputes_to_ask on onceward.payment_disputes (ask_at) where ask_at is not null;
select onceward.protect('onceward.payment_disputes');

create table onceward.payment_plans (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    payment_id uuid not null,                     -- the payment whose page starts the subscription
    account_id uuid not null references onceward.payment_accounts,
    subscription text,
    status text not null default 'starting' check (status in
        ('starting', 'active', 'late', 'unpaid', 'ending', 'ended', 'completed')),
    count int not null,
    months int not null,
    grace_days int not null,
    paid int not null default 0,
    late_since timestamptz,
    period_end timestamptz,
    end_how text check (end_how in ('now', 'with_period')),     -- the end that we want at the service
    ended_at timestamptz,                         -- the service said that the subscription has ended
    ask_at timestamptz,
    asks int not null default 0,
    created_at timestamptz not null default onceward.now(),
    unique (payment_id),
    foreign key (payment_id, organization_id) references onceward.payments (id, organization_id)
);
create index payment_plans_to_ask on onceward.payment_plans (ask_at) where ask_at is not null;
select onceward.protect('onceward.payment_plans');

create table onceward.payment_journals (
    journal_id bigint primary key,
    organization_id uuid not null default onceward.organization(),
    payment_id uuid,
    payout_id uuid,
    kind text not null,
    cash bigint not null,                         -- what the journal adds to the cash at the service
    cash_code text not null,                      -- the account of that cash
    created_at timestamptz not null default onceward.now()
);
comment on table onceward.payment_journals is
    'The journals that the machine posted. `verify` compares them with the ledger and with the states.';
create index payment_journals_of_payment on onceward.payment_journals (payment_id);
select onceward.protect('onceward.payment_journals');

create table onceward.payment_early (
    account_id uuid not null references onceward.payment_accounts,
    charge text not null,
    kind text not null check (kind in ('refund', 'dispute')),
    reference text not null,
    fact jsonb not null,
    received_at timestamptz not null default onceward.now(),
    primary key (account_id, kind, reference)
);
comment on table onceward.payment_early is 'Refunds and disputes of charges that are not known (yet). Most belong to other software.';
create index payment_early_of_charge on onceward.payment_early (account_id, charge);
create index payment_early_oldest on onceward.payment_early (received_at);
alter table onceward.payment_early enable row level security;
create policy engine on onceward.payment_early for all to onceward_engine using (true) with check (true);
grant select, insert, update, delete on onceward.payment_early to onceward_engine;

create table onceward.payment_payouts (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    account_id uuid not null references onceward.payment_accounts,
    reference text not null,
    status text not null check (status in ('pending', 'paid', 'failed')),
    amount bigint not null,
    currency text not null,
    booked bigint not null default 0,
    bookings int not null default 0,
    arrives_at timestamptz,
    created_at timestamptz not null default onceward.now(),
    unique (account_id, reference)
);
create index payment_payouts_newest on onceward.payment_payouts (organization_id, created_at, id);
select onceward.protect('onceward.payment_payouts');

create table onceward.payment_fees (
    account_id uuid not null references onceward.payment_accounts,
    reference text not null,                      -- of the movement of the balance
    organization_id uuid not null default onceward.organization(),
    payment_id uuid,                              -- null: a fee of the account itself
    amount bigint not null,
    currency text not null,
    taken_at timestamptz not null,
    primary key (account_id, reference),
    foreign key (payment_id, organization_id) references onceward.payments (id, organization_id)
);
comment on table onceward.payment_fees is 'What the service took, as its balance says, each movement once.';
create index payment_fees_of_payment on onceward.payment_fees (payment_id);
select onceward.protect('onceward.payment_fees');

create table onceward.payment_differences (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null default onceward.organization(),
    account_id uuid not null references onceward.payment_accounts,
    payment_id uuid,
    kind text not null,
    reference text not null,
    detail text not null,
    found_at timestamptz not null default onceward.now(),
    resolved_at timestamptz,
    unique (account_id, kind, reference)
);
create index payment_differences_open on onceward.payment_differences (found_at) where resolved_at is null;
select onceward.protect('onceward.payment_differences');

-- A handler may write rows of its own organization, and no row with the account of another one.

do $$
declare
    each regclass;
begin
    foreach each in array array['onceward.payments', 'onceward.payment_names', 'onceward.payment_plans', 'onceward.payment_payouts',
                                'onceward.payment_fees',
                                'onceward.payment_differences']::regclass[] loop
        execute format('create trigger own_account before insert or update of account_id, organization_id on %s '
                       'for each row execute function onceward.require_own_account()', each);
    end loop;
end
$$;

-- `onceward trace` finds rows by their cause, and must not read the whole table.

create index payments_caused_by on onceward.payments (caused_by) where caused_by is not null;
create index payment_refunds_caused_by on onceward.payment_refunds (caused_by) where caused_by is not null;
