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
    check (ends_at > starts_at),
    unique (cohort_id, starts_at),
    unique (id, organization_id),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
select onceward.protect('learning.sessions');

create table learning.enrollments (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    user_id uuid not null,
    cohort_id uuid not null,
    status text not null default 'ACTIVE' check (status in ('ACTIVE', 'REFUND_PENDING', 'REFUNDED', 'EXPIRED')),
    enrolled_at timestamptz not null default onceward.now(),
    payment_intent_id text,                     -- null: nothing was to be paid
    stripe_session_id text,
    amount_paid bigint not null check (amount_paid >= 0),   -- all instalments so far; extensions are not part of it
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    claim_id bigint,                            -- its place in the capacity pool `cohort:<id>`; null once the place is free again
    access_expires_at timestamptz not null,
    access_revoked_at timestamptz,
    access_extension_applied boolean not null default false,
    refunded_at timestamptz,
    refund_amount bigint check (refund_amount >= 0),
    refund_reason text,
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
    updated_at timestamptz not null default onceward.now(),
    changed_by xid8 not null default pg_current_xact_id(),
    unique (id, organization_id),
    foreign key (user_id, organization_id) references learning.users (id, organization_id),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
create unique index enrollments_one_live on learning.enrollments (user_id, cohort_id) where status <> 'REFUNDED';
comment on index learning.enrollments_one_live is 'A user has at most one enrolment in a cohort that was not refunded.';
create unique index enrollments_by_payment on learning.enrollments (organization_id, payment_intent_id)
    where payment_intent_id is not null;
create unique index enrollments_by_session on learning.enrollments (organization_id, stripe_session_id)
    where stripe_session_id is not null;
create index enrollments_by_cohort on learning.enrollments (cohort_id, status);
create index enrollments_to_expire on learning.enrollments (access_expires_at) where status = 'ACTIVE';
create index enrollments_active_by_day on learning.enrollments (organization_id, enrolled_at) include (amount_paid, currency)
    where status = 'ACTIVE';
create index enrollments_refund_pending on learning.enrollments (organization_id) where status = 'REFUND_PENDING';
create index enrollments_by_change on learning.enrollments (organization_id, changed_by);
select onceward.protect('learning.enrollments');

-- A started checkout: the place that it holds and the payment page of the service.
create table learning.checkouts (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    kind text not null default 'enrollment' check (kind in ('enrollment', 'extension', 'subscription')),
    user_id uuid not null,
    cohort_id uuid not null,
    enrollment_id uuid,                         -- of an extension
    invite_id uuid,
    claim_id bigint,                            -- the place that it holds; null: the invite's claim, or nothing is held
    amount bigint not null check (amount >= 0),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    status text not null default 'started' check (status in ('started', 'waiting', 'completed', 'expired', 'failed', 'refused',
                                                              'replaced')),  -- replaced: by another way to pay; its payment is refunded
    stripe_session_id text,
    payment_url text,                           -- null: the page is being opened
    page_expires_at timestamptz not null,       -- by the real clock: the payment service has its own
    expires_at timestamptz not null,
    created_at timestamptz not null default onceward.now(),
    ended_at timestamptz,
    unique (id, organization_id),
    foreign key (user_id, organization_id) references learning.users (id, organization_id),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
create unique index checkouts_one_started on learning.checkouts (user_id, cohort_id, (kind = 'extension')) where status = 'started';
comment on index learning.checkouts_one_started is 'A person holds one place and has one payment page for a cohort, and one for its extension.';
create unique index checkouts_by_session on learning.checkouts (organization_id, stripe_session_id)
    where stripe_session_id is not null;
create index checkouts_by_user on learning.checkouts (user_id, cohort_id) where status in ('started', 'waiting');
select onceward.protect('learning.checkouts');

-- Every payment that arrived. Each is exactly one of: enrolment, extension, instalment, refused (and then refunded).
-- A payment whose cohort is unknown belongs to no organization if its webhook came from the platform's source.
create table learning.payments (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid default onceward.organization(),
    payment_intent_id text not null,
    stripe_session_id text,
    amount bigint not null check (amount > 0),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    purpose text not null check (purpose in ('enrollment', 'extension', 'instalment', 'refused')),
    reason text,                                -- why it was refused
    user_id uuid,
    cohort_id uuid,
    enrollment_id uuid,
    refunded_amount bigint not null default 0 check (refunded_amount between 0 and amount),
    charged_back_amount bigint not null default 0 check (charged_back_amount >= 0),    -- taken back by lost disputes
    refund_reason text,
    refund_failed_at timestamptz,               -- the service's time: older reports of a refunded amount do not count
    disputed_at timestamptz,                    -- null once no dispute is open
    received_at timestamptz not null default onceward.now(),
    check ((purpose = 'refused') = (reason is not null)),
    check ((purpose = 'refused') or (enrollment_id is not null)),
    check (refunded_amount + charged_back_amount <= amount),
    unique nulls not distinct (organization_id, payment_intent_id),
    unique (id, organization_id)
);
create index payments_by_enrollment on learning.payments (enrollment_id);
create index payments_by_intent on learning.payments (payment_intent_id);
select onceward.protect('learning.payments');

-- Refunds that we ask the payment service for.
create table learning.refunds (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid default onceward.organization(),
    payment_id uuid not null references learning.payments (id),
    enrollment_id uuid,
    cohort_id uuid,
    amount bigint not null check (amount > 0),
    refunded_before bigint not null check (refunded_before >= 0),  -- what had been refunded when this was requested
    currency text not null,
    reason text not null,
    cohort_cancelled boolean not null default false,
    -- pending: not yet accepted by the service; requested: accepted, not final; done: confirmed;
    -- failed: the person does not have the money, and operators were notified.
    status text not null default 'pending' check (status in ('pending', 'requested', 'done', 'failed')),
    attempt int not null default 1 check (attempt > 0),
    provider_refund_id text,
    earlier_references text[] not null default '{}',  -- ids of attempts that failed at the service
    failure text,
    requested_at timestamptz not null default onceward.now(),
    attempted_at timestamptz not null default onceward.now(),
    done_at timestamptz,
    failed_at timestamptz,
    foreign key (payment_id, organization_id) references learning.payments (id, organization_id)
);
create unique index refunds_one_open on learning.refunds (payment_id) where status in ('pending', 'requested');
comment on index learning.refunds_one_open is 'A payment has at most one refund under way, so that nobody is paid back twice.';
create index refunds_by_payment on learning.refunds (payment_id);
create index refunds_by_enrollment on learning.refunds (enrollment_id);
create index refunds_by_cohort on learning.refunds (cohort_id) where cohort_cancelled;
create index refunds_by_service_id on learning.refunds (provider_refund_id);
create index refunds_to_follow on learning.refunds (attempted_at) where status in ('pending', 'requested');
select onceward.protect('learning.refunds');

-- Payments that a student's bank wants back. The money of a lost dispute counts as `charged_back_amount` of the payment.
create table learning.disputes (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid default onceward.organization(),
    payment_id uuid not null references learning.payments (id),
    enrollment_id uuid,
    provider_dispute_id text not null,
    amount bigint not null check (amount > 0),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    reason text not null default '',
    provider_status text not null,
    status text not null default 'open' check (status in ('open', 'won', 'lost')),
    opened_at timestamptz not null default onceward.now(),
    closed_at timestamptz,
    unique (payment_id, provider_dispute_id),
    foreign key (payment_id, organization_id) references learning.payments (id, organization_id)
);
create index disputes_by_enrollment on learning.disputes (enrollment_id) where status = 'open';
select onceward.protect('learning.disputes');

-- Refunds of payments that are not known yet: webhooks arrive in any order. The enrolment takes them over.
create table learning.refunds_seen (
    organization_id uuid not null default onceward.organization(),
    payment_intent_id text not null,
    amount_refunded bigint not null check (amount_refunded > 0),       -- cumulative: the largest seen
    reason text,
    received_at timestamptz not null default onceward.now(),
    applied_at timestamptz,
    primary key (organization_id, payment_intent_id)
);
select onceward.protect('learning.refunds_seen');

create table learning.subscriptions (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    stripe_subscription_id text not null,
    user_id uuid,
    cohort_id uuid,
    enrollment_id uuid,
    status text not null,                       -- as the payment service names it
    plan text,
    current_period_end timestamptz,
    cancel_at_period_end boolean not null default false,
    ended_at timestamptz,
    instalment_count int not null default 0,    -- after so many instalments it is cancelled; 0: it has no last one
    mirrored_at timestamptz not null,           -- the service's time of the newest event; older ones are ignored
    created_at timestamptz not null default onceward.now(),
    unique (organization_id, stripe_subscription_id),
    unique (id, organization_id)
);
create index subscriptions_by_enrollment on learning.subscriptions (enrollment_id);
select onceward.protect('learning.subscriptions');

create table learning.instalments (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    subscription_id uuid,
    enrollment_id uuid,
    stripe_invoice_id text not null,
    payment_intent_id text,
    amount bigint not null check (amount >= 0),
    currency text not null,
    period_end timestamptz,
    paid_at timestamptz not null default onceward.now(),
    unique (organization_id, stripe_invoice_id)
);
create index instalments_by_enrollment on learning.instalments (enrollment_id);
select onceward.protect('learning.instalments');

create table learning.access_extensions (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    enrollment_id uuid not null,
    extends_until timestamptz not null,
    status text not null default 'ACTIVE' check (status in ('ACTIVE', 'APPLIED', 'REVOKED')),
    payment_intent_id text,
    stripe_session_id text,
    amount_paid bigint not null default 0 check (amount_paid >= 0),
    currency text not null,
    bought_at timestamptz not null default onceward.now(),
    applied_at timestamptz,
    foreign key (enrollment_id, organization_id) references learning.enrollments (id, organization_id)
);
create unique index access_extensions_by_payment on learning.access_extensions (organization_id, payment_intent_id)
    where payment_intent_id is not null;
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
select onceward.watch('learning.refunds', 'cohort_id');
select onceward.watch('learning.waitlist_entries', 'cohort_id');
select onceward.watch('learning.waitlist_invites', 'cohort_id');
