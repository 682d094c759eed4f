-- onceward: expand
-- Bookings, attendance, content, surveys, certificates, chat, activity, analytics and the CRM sync of the learning platform.

-- One row per enrolment and booked session at Cal.com. A reschedule changes the uid; the older ones are kept to find the row.
create table learning.bookings (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    enrollment_id uuid not null,
    session_id uuid,
    uid text not null,
    earlier_uids text[] not null default '{}',
    status text not null default 'ACCEPTED' check (status in ('REQUESTED', 'ACCEPTED', 'CANCELLED')),
    starts_at timestamptz not null,
    ends_at timestamptz not null,
    url text,
    is_ours boolean not null default false,     -- our own job booked it: one mail tells about all of them
    announced_at timestamptz,                   -- when that mail was written
    confirmed_at timestamptz,
    ended_at timestamptz,                       -- the meeting ended
    cancelled_at timestamptz,
    cancellation_reason text,
    created_at timestamptz not null default onceward.now(),
    unique (organization_id, uid),
    unique (id, organization_id),
    foreign key (enrollment_id, organization_id) references learning.enrollments (id, organization_id),
    foreign key (session_id, organization_id) references learning.sessions (id, organization_id)
);
create index bookings_by_enrollment on learning.bookings (enrollment_id);
create index bookings_by_session on learning.bookings (session_id, enrollment_id) where status <> 'CANCELLED';
create index bookings_by_earlier_uid on learning.bookings using gin (earlier_uids);
create unique index bookings_one_per_session on learning.bookings (enrollment_id, session_id) where status <> 'CANCELLED';
select onceward.protect('learning.bookings');

-- Append-only: the newest observation of an enrolment and a session counts, so a correction keeps what it corrects.
create table learning.attendance_observations (
    id bigint generated always as identity primary key,
    organization_id uuid not null default onceward.organization(),
    enrollment_id uuid not null,
    session_id uuid not null,
    attended boolean not null,
    source text not null check (source in ('meeting_ended', 'no_show', 'correction')),
    cause text not null,                        -- the event or the request that reported it
    observed_by text not null,
    reason text,
    duration_s int,
    observed_at timestamptz not null default onceward.now(),
    unique (organization_id, enrollment_id, session_id, source, cause),
    foreign key (enrollment_id, organization_id) references learning.enrollments (id, organization_id),
    foreign key (session_id, organization_id) references learning.sessions (id, organization_id)
);
create index attendance_newest on learning.attendance_observations (enrollment_id, session_id, id desc);
select onceward.protect('learning.attendance_observations');

create table learning.content_items (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    cohort_id uuid not null,
    kind text not null check (kind in ('lesson', 'assignment', 'quiz')),
    title text not null check (length(title) between 1 and 200),
    body text,
    url text,
    position int not null default 0,
    required boolean not null default true,
    is_prep boolean not null default false,     -- shown before the cohort starts
    graded boolean not null default false,      -- an assignment that is handed in and graded, not ticked by the student
    pass_percentage int not null default 80 check (pass_percentage between 1 and 100),  -- of a quiz with questions
    resource text check (resource in ('beginner-prep', 'advanced-challenges')),  -- only for students who were assigned it
    unique (id, organization_id),
    unique (cohort_id, kind, title),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
create index content_items_by_cohort on learning.content_items (cohort_id, position);
create index content_items_by_title on learning.content_items (organization_id, title, id);
select onceward.protect('learning.content_items');

create table learning.progress (
    organization_id uuid not null default onceward.organization(),
    enrollment_id uuid not null,
    item_id uuid not null,
    done_at timestamptz not null default onceward.now(),
    primary key (enrollment_id, item_id),
    foreign key (enrollment_id, organization_id) references learning.enrollments (id, organization_id),
    foreign key (item_id, organization_id) references learning.content_items (id, organization_id)
);
select onceward.protect('learning.progress');

-- Which question of a Formbricks survey fills which field. Without rows the settings and the field names themselves are used.
create table learning.survey_maps (
    organization_id uuid not null default onceward.organization(),
    survey_id text not null,
    kind text not null check (kind in ('intake', 'exit', 'feedback')),
    fields jsonb not null default '{}',         -- question id -> field
    updated_at timestamptz not null default onceward.now(),
    primary key (organization_id, survey_id)
);
select onceward.protect('learning.survey_maps');

create table learning.survey_responses (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    response_id text not null,
    survey_id text not null,
    kind text not null check (kind in ('intake', 'exit', 'feedback', 'unknown')),
    enrollment_id uuid,
    answers jsonb not null default '{}',
    rating int,
    received_at timestamptz not null default onceward.now(),
    unique (organization_id, survey_id, response_id)
);
create index survey_responses_by_enrollment on learning.survey_responses (enrollment_id);
select onceward.protect('learning.survey_responses');

create table learning.supplemental_resources (
    organization_id uuid not null default onceward.organization(),
    enrollment_id uuid not null,
    resource text not null,                     -- beginner-prep | advanced-challenges
    assigned_at timestamptz not null default onceward.now(),
    primary key (enrollment_id, resource),
    foreign key (enrollment_id, organization_id) references learning.enrollments (id, organization_id)
);
select onceward.protect('learning.supplemental_resources');

create table learning.certificates (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    enrollment_id uuid not null,
    user_id uuid not null,
    cohort_id uuid not null,
    credential_id text not null unique,
    status_number bigint generated always as identity unique,   -- its place in the status lists of badges
    replaced_by uuid,                           -- the certificate that was issued instead, with a corrected name
    url text not null,
    snapshot jsonb not null,                    -- the names, dates and percentages at the time of issue
    document bytea,                             -- the PDF; written by a job after the issue
    issued_at timestamptz not null default onceward.now(),
    revoked_at timestamptz,
    revoked_reason text,
    foreign key (enrollment_id, organization_id) references learning.enrollments (id, organization_id)
);
create unique index certificates_one_of_enrollment on learning.certificates (enrollment_id) where replaced_by is null;
comment on index learning.certificates_one_of_enrollment is 'An enrolment has one certificate; a corrected one replaces it.';
create index certificates_by_cohort on learning.certificates (cohort_id);
create index certificates_by_user on learning.certificates (user_id);
create index certificates_not_valid on learning.certificates (organization_id, status_number)
    where revoked_at is not null or snapshot ? 'erased';
select onceward.protect('learning.certificates');

create table learning.cohort_metrics (
    cohort_id uuid primary key,
    organization_id uuid not null default onceward.organization(),
    completion_rate numeric,
    nps_score numeric,
    satisfaction numeric,
    responses int not null default 0,
    updated_at timestamptz not null default onceward.now(),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id)
);
select onceward.protect('learning.cohort_metrics');

create table learning.chat_messages (
    id bigint generated always as identity primary key,
    organization_id uuid not null default onceward.organization(),
    cohort_id uuid not null,
    user_id uuid,                               -- null: somebody of the school wrote it
    author text check (length(author) <= 200),  -- the name of that person
    message text not null check (length(message) between 1 and 4000),
    client_key text,                            -- the browser's key of the message: a repeated request adds nothing
    sent_at timestamptz not null default onceward.now(),
    edited_at timestamptz,
    deleted_at timestamptz,
    removed boolean not null default false,     -- by the school, not by the author
    check ((user_id is null) <> (author is null)),
    unique (id, organization_id),
    unique (cohort_id, user_id, client_key),
    foreign key (cohort_id, organization_id) references learning.cohorts (id, organization_id),
    foreign key (user_id, organization_id) references learning.users (id, organization_id)
);
create index chat_messages_newest on learning.chat_messages (cohort_id, id desc);
select onceward.protect('learning.chat_messages');

create table learning.chat_reactions (
    organization_id uuid not null default onceward.organization(),
    cohort_id uuid not null,
    message_id bigint not null,
    user_id uuid not null,
    emoji text not null check (length(emoji) between 1 and 16),
    reacted_at timestamptz not null default onceward.now(),
    primary key (message_id, user_id, emoji),
    foreign key (message_id, organization_id) references learning.chat_messages (id, organization_id)
);
create index chat_reactions_by_cohort on learning.chat_reactions (cohort_id);
select onceward.protect('learning.chat_reactions');

create table learning.chat_reads (
    organization_id uuid not null default onceward.organization(),
    cohort_id uuid not null,
    user_id uuid not null,
    last_message_id bigint not null,
    read_at timestamptz not null default onceward.now(),
    primary key (cohort_id, user_id)
);
select onceward.protect('learning.chat_reads');

-- One-time sign-in links and the sessions that they open. Only hashes of the tokens are stored.
create table learning.sign_in_links (
    token_hash bytea primary key check (length(token_hash) = 32),
    organization_id uuid not null default onceward.organization(),
    user_id uuid not null,
    cohort_id uuid,                             -- the cohort that the person takes a place in by using the link: a free one,
    seat_block_id uuid,                         -- or one in which a company has these seats
    expires_at timestamptz not null,
    used_at timestamptz,
    created_at timestamptz not null default onceward.now(),
    foreign key (user_id, organization_id) references learning.users (id, organization_id)
);
create index sign_in_links_by_user on learning.sign_in_links (user_id);
create index sign_in_links_by_end on learning.sign_in_links (expires_at);
select onceward.protect('learning.sign_in_links');

create table learning.student_sessions (
    token_hash bytea primary key check (length(token_hash) = 32),
    id uuid not null default gen_random_uuid() unique,  -- what the page's live token names
    organization_id uuid not null default onceward.organization(),
    user_id uuid not null,
    expires_at timestamptz not null,
    created_at timestamptz not null default onceward.now(),
    foreign key (user_id, organization_id) references learning.users (id, organization_id)
);
create index student_sessions_by_user on learning.student_sessions (user_id);
create index student_sessions_by_end on learning.student_sessions (expires_at);
select onceward.protect('learning.student_sessions');

-- What happened, for the dashboard: ids and short facts, never addresses or payment data.
create table learning.activity_log (
    id bigint generated always as identity primary key,
    organization_id uuid not null default onceward.organization(),
    kind text not null,
    cohort_id uuid,
    enrollment_id uuid,
    user_id uuid,
    details jsonb not null default '{}',
    happened_at timestamptz not null default onceward.now()
);
create index activity_log_newest on learning.activity_log (organization_id, id desc);
create index activity_log_by_user on learning.activity_log (user_id, happened_at);
create index activity_log_by_time on learning.activity_log (organization_id, happened_at);
select onceward.protect('learning.activity_log');

create table learning.page_views (
    id bigint generated always as identity primary key,
    organization_id uuid not null default onceward.organization(),
    visitor text not null,                      -- a random id of the browser, or a hash; never an address
    path text not null check (length(path) <= 500),
    viewed_at timestamptz not null default onceward.now()
);
create index page_views_by_day on learning.page_views (organization_id, viewed_at) include (visitor);
select onceward.protect('learning.page_views');

create table learning.daily_metrics (
    organization_id uuid not null default onceward.organization(),
    day date not null,
    metrics jsonb not null,
    kpis jsonb not null,
    stored_at timestamptz not null default onceward.now(),
    primary key (organization_id, day)
);
select onceward.protect('learning.daily_metrics');

-- How far the CRM has been updated, as a snapshot: the next run takes the rows whose transaction that snapshot did not see.
-- A run that was interrupted goes on where it was: `upto` is its snapshot, `after` the last record that the CRM answered.
create table learning.crm_sync (
    organization_id uuid not null default onceward.organization(),
    kind text not null check (kind in ('contacts', 'deals')),
    watermark pg_snapshot,
    upto pg_snapshot,
    after uuid,
    synced_at timestamptz,
    primary key (organization_id, kind)
);
select onceward.protect('learning.crm_sync');

-- Records that the CRM refused. They are sent again after a day, and when they change; they hold up no other record.
create table learning.crm_refused (
    organization_id uuid not null default onceward.organization(),
    kind text not null check (kind in ('contacts', 'deals')),
    record_id uuid not null,
    reason text not null,
    refused_at timestamptz not null default onceward.now(),
    primary key (organization_id, kind, record_id)
);
create index crm_refused_oldest on learning.crm_refused (organization_id, kind, refused_at);
select onceward.protect('learning.crm_refused');

create table learning.crm_sync_log (
    id bigint generated always as identity primary key,
    organization_id uuid not null default onceward.organization(),
    synced_at timestamptz not null default onceward.now(),
    contacts_processed int not null default 0,
    deals_processed int not null default 0,
    failed int not null default 0,
    success boolean not null,
    error text
);
create index crm_sync_log_newest on learning.crm_sync_log (organization_id, id desc);
select onceward.protect('learning.crm_sync_log');

select onceward.watch('learning.student_sessions', 'id');
select onceward.watch('learning.checkouts', 'cohort_id');
select onceward.watch('learning.bookings', 'enrollment_id');
select onceward.watch('learning.attendance_observations', 'enrollment_id');
select onceward.watch('learning.content_items', 'cohort_id');
select onceward.watch('learning.progress', 'enrollment_id');
select onceward.watch('learning.certificates', array['enrollment_id', 'cohort_id']);
select onceward.watch('learning.cohort_metrics', 'cohort_id');
select onceward.watch('learning.chat_messages', 'cohort_id');
select onceward.watch('learning.chat_reactions', 'cohort_id');
select onceward.watch('learning.chat_reads', array['cohort_id', 'user_id']);
select onceward.watch('learning.activity_log');
