-- Users, cohorts, enrolments, payments, subscriptions and the waitlist. Every row belongs to one organization.

create schema learning;
grant usage on schema learning to onceward_app, onceward_engine;

-- The key for signed links (surveys, access extensions): random, one for each organization, never shown.
create table learning.signing_keys (
    organization_id uuid primary key default onceward.organization(),
    key bytea not null,                    -- encrypted: 32 random bytes
    created_at timestamptz not null default onceward.now()
);
select onceward.protect('learning.signing_keys');

-- The keys that sign Open Badges (RSA, PKCS 8), for each organization one after the other, newest first. The first is created for the
-- first badge. Only their public halves are shown.
create table learning.badge_keys (
    organization_id uuid primary key default onceward.organization(),
    private_key bytea not null,            -- encrypted
    created_at timestamptz not null default onceward.now()
);
select onceward.protect('learning.badge_keys');

-- The own domain of a school. An administrator of the instance sets it. Its name and colours are the engine's look of the organization.
create table learning.schools (
    organization_id uuid primary key default onceward.organization(),
    domain text not null unique check (domain = lower(domain) and length(domain) between 4 and 253),
    updated_at timestamptz not null default onceward.now()
);
select onceward.protect('learning.schools');

create table learning.users (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    email text not null check (length(email) between 3 and 320),
    name text not null default '' check (length(name) <= 200),
    avatar text,
    locale text,
    last_login_at timestamptz,
    confirmed_at timestamptz default onceward.now(),    -- null: a stranger entered the address in a form, and nobody has confirmed it
    created_at timestamptz not null default onceward.now(),
    updated_at timestamptz not null default onceward.now(),
    erased_at timestamptz,
    changed_by xid8 not null default pg_current_xact_id(),     -- the CRM sync reads changes in commit order
    unique (id, organization_id)
);
create unique index users_by_email on learning.users (organization_id, lower(email));
create index users_by_change on learning.users (organization_id, changed_by);
-- The lists of the desk: newest first, and by the beginnings of words.
create index users_newest on learning.users (organization_id, created_at, id);
create index users_words on learning.users
    using gin (to_tsvector('simple', coalesce(coalesce(nullif(name, ''), email), '') || ' ' || coalesce(email, '')));
select onceward.protect('learning.users');

create table learning.cohorts (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    name text not null check (length(name) between 1 and 200),
    description text not null default '',
    starts_at timestamptz not null,
    ends_at timestamptz not null,
    max_capacity int not null check (max_capacity between 0 and 1000000),
    status text not null default 'DRAFT'
        check (status in ('DRAFT', 'OPEN', 'CONFIRMED', 'IN_PROGRESS', 'COMPLETED', 'CANCELLED')),
    status_changed_at timestamptz not null default onceward.now(),
    required_attendance_percentage int not null default 80 check (required_attendance_percentage between 0 and 100),
    has_live_sessions boolean not null default true,
    cal_event_type_id bigint,
    zoom_link text,
    slack_channel_url text,
    time_zone text not null default 'UTC',                                  -- days and hours of its mails are meant in this zone
    price bigint not null check (price between 0 and 100000000),           -- minor units
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    extension_price bigint not null default 0 check (extension_price between 0 and 100000000),
    extension_days int not null default 30 check (extension_days between 1 and 3650),
    instalment_price bigint not null default 0 check (instalment_price between 0 and 100000000),
    instalment_count int not null default 0 check (instalment_count between 0 and 60),   -- monthly; 0: not offered
    content_unlocked_at timestamptz,                                        -- set on IN_PROGRESS; the content API checks it
    cancelled_at timestamptz,
    cancellation_reason text,
    refunds_processed int not null default 0,
    unstarted_alert_at timestamptz,                                         -- when operators were told that it is OPEN after its start
    created_at timestamptz not null default onceward.now(),
    check (ends_at > starts_at),
    unique (id, organization_id)
);
create index cohorts_by_start on learning.cohorts (organization_id, starts_at);
create unique index cohorts_one_of_a_name on learning.cohorts (organization_id, lower(name), starts_at) where status <> 'CANCELLED';
comment on index learning.cohorts_one_of_a_name is 'A request that is sent twice creates one cohort.';
create index cohorts_to_start on learning.cohorts (starts_at) where status in ('OPEN', 'CONFIRMED');
create index cohorts_to_end on learning.cohorts (ends_at) where status = 'IN_PROGRESS';
create index cohorts_newest on learning.cohorts (organization_id, starts_at, id);
select onceward.protect('learning.cohorts');

create table learning.cohort_status_history (
    id bigint generated always as identity primary key,
    organization_id uuid not null default onceward.organization(),
    cohort_id uuid not null,
    from_status text not null,
    to_status text not null,
    changed_by text not null,
    reason text,
    changed_at timestamptz not null default onceward.now(),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
create index cohort_status_history_by_cohort on learning.cohort_status_history (cohort_id, id);
select onceward.protect('learning.cohort_status_history');

create table learning.sessions (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    cohort_id uuid not null,
    title text not null check (length(title) between 1 and 200),
    starts_at timestamptz not null,
    ends_at timestamptz not null,
    recording_url text,
    cancelled_at timestamptz,
    cancellation_reason text,
    revision int not null default 0,        -- grows with each change: calendars take the newest, and each change is mailed once
    check (ends_at > starts_at),
    unique (id, organization_id),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
create unique index sessions_one_at_a_time on learning.sessions (cohort_id, starts_at) where cancelled_at is null;
comment on index learning.sessions_one_at_a_time is 'A request that is sent twice adds one session. A cancelled one leaves its time free.';
create index sessions_by_cohort on learning.sessions (cohort_id, starts_at);
create index sessions_newest on learning.sessions (organization_id, starts_at, id);
select onceward.protect('learning.sessions');

create table learning.enrollments (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    user_id uuid not null,
    cohort_id uuid not null,
    status text not null default 'ACTIVE' check (status in ('ACTIVE', 'REFUND_PENDING', 'REFUNDED', 'EXPIRED')),
    enrolled_at timestamptz not null default onceward.now(),
    amount_paid bigint not null check (amount_paid >= 0),   -- all instalments so far; extensions are not part of it
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    claim_id bigint,                            -- its place in the capacity pool `cohort:<id>`; null once the place is free again
    access_expires_at timestamptz not null,
    access_revoked_at timestamptz,
    access_extension_applied boolean not null default false,
    refunded_at timestamptz,
    refund_amount bigint check (refund_amount >= 0),
    refund_reason text,
    ended_with_cohort boolean not null default false,   -- the cohort was cancelled, and its mail says that the money comes back
    partial_refund bigint check (partial_refund >= 0),
    partial_refund_reason text,
    disputed_at timestamptz,                    -- null once no dispute is open
    intake_survey_completed_at timestamptz,
    intake_survey_response_id text,
    exit_survey_completed_at timestamptz,
    exit_survey_response_id text,
    student_profile jsonb not null default '{}',
    onboarding_progress jsonb not null default '{}',
    feedback jsonb,
    nps_score int check (nps_score between 0 and 10),
    nps_category text check (nps_category in ('PROMOTER', 'PASSIVE', 'DETRACTOR')),
    moved_from uuid,                            -- the cohort that the student was moved from
    reminded text,                              -- the last reminder before a start: the cohort and the template
    updated_at timestamptz not null default onceward.now(),
    changed_by xid8 not null default pg_current_xact_id(),
    unique (id, organization_id),
    foreign key (user_id, organization_id) references learning.users (id, organization_id),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
create unique index enrollments_one_live on learning.enrollments (user_id, cohort_id) where status <> 'REFUNDED';
comment on index learning.enrollments_one_live is 'A user has at most one enrolment in a cohort that was not refunded.';
create index enrollments_by_cohort on learning.enrollments (cohort_id, status, id);
create index enrollments_of_cohort on learning.enrollments (cohort_id, enrolled_at, id);
create index enrollments_by_user on learning.enrollments (user_id);
create index enrollments_to_expire on learning.enrollments (access_expires_at) where status = 'ACTIVE';
create index enrollments_active_by_day on learning.enrollments (organization_id, enrolled_at) include (amount_paid, currency)
    where status = 'ACTIVE';
create index enrollments_refund_pending on learning.enrollments (organization_id) where status = 'REFUND_PENDING';
create index enrollments_by_change on learning.enrollments (organization_id, changed_by);
create index enrollments_newest on learning.enrollments (organization_id, enrolled_at, id);
select onceward.protect('learning.enrollments');

-- Codes that lower a price: by a percentage, or by an amount in one currency. How often a code was used, and how often it is held by
-- people who are paying, is in the capacity pool `discount:<id>`.
create table learning.discount_codes (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    code text not null check (code ~ '^[A-Z0-9][A-Z0-9-]{5,39}$'),
    cohort_id uuid,                             -- null: for every cohort
    percent int check (percent between 1 and 99),
    amount bigint check (amount > 0),           -- minor units
    currency text check (currency ~ '^[A-Z]{3}$'),
    most_uses int check (most_uses > 0),        -- null: any number
    valid_until timestamptz,
    created_at timestamptz not null default onceward.now(),
    check ((percent is null) <> (amount is null)),
    check ((amount is null) = (currency is null)),
    unique (id, organization_id),
    unique (organization_id, code),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
create index discount_codes_newest on learning.discount_codes (organization_id, created_at, id);
select onceward.protect('learning.discount_codes');

-- Seats that a company has bought, outside of this platform, and that its people take with a link.
create table learning.seat_blocks (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    cohort_id uuid not null,
    company text not null check (length(company) between 1 and 200),
    contact_email text not null check (length(contact_email) between 3 and 320),
    email_domain text check (length(email_domain) between 3 and 253),   -- null: people with any address may take a seat
    reference text check (length(reference) <= 200),                    -- the number of the invoice, for people
    token_hash bytea not null unique check (length(token_hash) = 32),
    link_sent_at timestamptz not null default onceward.now(),
    created_at timestamptz not null default onceward.now(),
    ended_at timestamptz,                       -- its free seats were given back
    unique (id, organization_id),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
create index seat_blocks_newest on learning.seat_blocks (organization_id, created_at, id);
create unique index seat_blocks_one_of_company on learning.seat_blocks (cohort_id, lower(company)) where ended_at is null;
comment on index learning.seat_blocks_one_of_company is 'A request that is sent twice reserves seats once.';
create index seat_blocks_by_cohort on learning.seat_blocks (cohort_id, created_at, id);
select onceward.protect('learning.seat_blocks');

create table learning.seats (
    id bigint generated always as identity primary key,
    organization_id uuid not null default onceward.organization(),
    block_id uuid not null,
    claim_id bigint not null unique,            -- its place in the capacity pool `cohort:<id>`; also the place of its enrolment
    enrollment_id uuid unique,                  -- null: free
    foreign key (block_id, organization_id) references learning.seat_blocks (id, organization_id),
    foreign key (enrollment_id, organization_id) references learning.enrollments (id, organization_id)
);
create index seats_free on learning.seats (block_id, id) where enrollment_id is null;
create index seats_by_block on learning.seats (block_id);
select onceward.protect('learning.seats');

-- A place that is held for a person who pays. The payments of the enrolment have the same id as their subject, and so will the
-- enrolment. Payments, refunds, disputes and instalments are in `onceward.payments` and the tables around it.
create table learning.checkouts (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    user_id uuid not null,
    cohort_id uuid not null,
    invite_id uuid,
    browser text not null default '',           -- whose page it is: empty for the person, else the browser of somebody who gave the address
    claim_id bigint,                            -- the place that it holds; null: the invite's claim, or none
    discount_id uuid,
    discount_claim_id bigint,                   -- the use of the code that it holds; null: none, or the payer is a stranger
    status text not null default 'started' check (status in ('started', 'waiting', 'ended')),  -- waiting: for a bank debit
    created_at timestamptz not null default onceward.now(),
    ended_at timestamptz,
    unique (id, organization_id),
    foreign key (user_id, organization_id) references learning.users (id, organization_id),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id),
    foreign key (discount_id, organization_id) references learning.discount_codes (id, organization_id)
);
create unique index checkouts_one_started on learning.checkouts (user_id, cohort_id, browser) where status = 'started';
comment on index learning.checkouts_one_started is
    'A person holds one place in a cohort while they pay. Who only knows the address has a checkout of their own.';
create index checkouts_strangers on learning.checkouts (cohort_id) where browser <> '' and status = 'started';
create index checkouts_waiting on learning.checkouts (user_id, cohort_id) where status = 'waiting';
select onceward.protect('learning.checkouts');

create table learning.access_extensions (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    enrollment_id uuid not null,
    extends_until timestamptz not null,
    status text not null default 'ACTIVE' check (status in ('ACTIVE', 'APPLIED', 'REVOKED')),
    payment_id uuid,                            -- in `onceward.payments`
    amount_paid bigint not null default 0 check (amount_paid >= 0),
    currency text not null,
    bought_at timestamptz not null default onceward.now(),
    applied_at timestamptz,
    foreign key (enrollment_id, organization_id) references learning.enrollments (id, organization_id)
);
create unique index access_extensions_by_payment on learning.access_extensions (organization_id, payment_id)
    where payment_id is not null;
create index access_extensions_to_apply on learning.access_extensions (enrollment_id) where status = 'ACTIVE';
select onceward.protect('learning.access_extensions');

create table learning.waitlist_entries (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    user_id uuid not null,
    cohort_id uuid not null,
    status text not null default 'ACTIVE' check (status in ('ACTIVE', 'INVITED', 'ENROLLED', 'REMOVED')),
    priority int not null default 0,
    added_at timestamptz not null default onceward.now(),
    invited_at timestamptz,
    expired_invites int not null default 0,
    ended_reason text,
    unique (id, organization_id),
    foreign key (user_id, organization_id) references learning.users (id, organization_id),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
create unique index waitlist_entries_one_live on learning.waitlist_entries (user_id, cohort_id)
    where status in ('ACTIVE', 'INVITED');
create index waitlist_entries_next on learning.waitlist_entries (cohort_id, priority desc, expired_invites, added_at, id)
    where status = 'ACTIVE';
create index waitlist_entries_newest on learning.waitlist_entries (organization_id, added_at, id);
create index waitlist_entries_of_cohort on learning.waitlist_entries (cohort_id, added_at, id);
create index waitlist_entries_by_user on learning.waitlist_entries (user_id);
select onceward.protect('learning.waitlist_entries');

create table learning.waitlist_invites (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    waitlist_entry_id uuid not null,
    user_id uuid not null,
    cohort_id uuid not null,
    token_hash bytea not null unique check (length(token_hash) = 32),
    claim_id bigint,                            -- an outstanding invite holds a place
    status text not null default 'SENT' check (status in ('SENT', 'ACCEPTED', 'EXPIRED', 'REVOKED')),
    expires_at timestamptz not null,
    sent_at timestamptz not null default onceward.now(),
    ended_at timestamptz,
    unique (id, organization_id),
    foreign key (waitlist_entry_id, organization_id) references learning.waitlist_entries (id, organization_id)
);
create unique index waitlist_invites_one_open on learning.waitlist_invites (waitlist_entry_id) where status = 'SENT';
create index waitlist_invites_due on learning.waitlist_invites (expires_at) where status = 'SENT';
create index waitlist_invites_by_cohort on learning.waitlist_invites (cohort_id) where status = 'SENT';
select onceward.protect('learning.waitlist_invites');

select onceward.watch('learning.users', 'id');
select onceward.watch('learning.cohorts', 'id');
select onceward.watch('learning.cohort_status_history', 'cohort_id');
select onceward.watch('learning.sessions', 'cohort_id');
select onceward.watch('learning.enrollments', array['id', 'cohort_id', 'user_id']);
select onceward.watch('learning.waitlist_entries', 'cohort_id');
select onceward.watch('learning.seat_blocks', 'cohort_id');
select onceward.watch('learning.waitlist_invites', 'cohort_id');
