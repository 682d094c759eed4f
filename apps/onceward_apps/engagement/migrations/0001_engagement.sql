-- Engagement: who is active, who was told goodbye, and what was said to whom.

create schema engagement;
grant usage on schema engagement to onceward_engine, onceward_app;

create table engagement.user_profiles (
    organization_id uuid not null default onceward.organization(),
    user_id uuid not null,
    reengagement_opt_out boolean not null default false,
    preferred_destination text not null default 'individual' check (preferred_destination in ('individual', 'group')),
    whatsapp_jid text,                      -- the number as + and digits; null: the user cannot be reached
    locale text,
    created_at timestamptz not null default onceward.now(),
    updated_at timestamptz not null default onceward.now(),
    primary key (organization_id, user_id)
);
create index idx_engagement_whatsapp on engagement.user_profiles (organization_id, whatsapp_jid) where whatsapp_jid is not null;
create index idx_engagement_whatsapp_anywhere on engagement.user_profiles (whatsapp_jid) where whatsapp_jid is not null;
select onceward.protect('engagement.user_profiles');

create table engagement.user_engagement_states (
    organization_id uuid not null default onceward.organization(),
    user_id uuid not null,
    state text not null default 'active' check (state in ('active', 'goodbye_sent', 'remind_later', 'dormant', 'help_flow')),
    state_since timestamptz not null default onceward.now(),
    last_activity_at timestamptz not null default onceward.now(),
    goodbye_sent_at timestamptz,
    goodbye_expires_at timestamptz,
    goodbye_key text,                       -- of the message; null: no message, because the user is in the holdout group
    remind_at timestamptz,
    replied_at timestamptz,                 -- the last answer help, later or stop: older activity does not undo it
    goodbye_failures int not null default 0,    -- goodbyes in a row that could not be sent
    goodbye_retry_at timestamptz,           -- no goodbye before this time, unless there is new activity
    unreachable_at timestamptz,             -- no goodbye at all, until there is new activity or a new number
    unreachable_because text,
    primary key (organization_id, user_id),
    foreign key (organization_id, user_id) references engagement.user_profiles on delete cascade,
    check ((state = 'goodbye_sent') = (goodbye_expires_at is not null)),
    check ((state = 'remind_later') = (remind_at is not null))
) with (fillfactor = 85);
create index idx_engagement_state on engagement.user_engagement_states (organization_id, state);
create index idx_engagement_last_activity on engagement.user_engagement_states (organization_id, last_activity_at, user_id)
    where state = 'active';
create index idx_engagement_goodbye_expires on engagement.user_engagement_states (organization_id, goodbye_expires_at, user_id)
    where goodbye_expires_at is not null;
create index idx_engagement_remind_at on engagement.user_engagement_states (organization_id, remind_at, user_id)
    where remind_at is not null;
create index idx_engagement_unreachable on engagement.user_engagement_states (organization_id, unreachable_at desc)
    where unreachable_at is not null;
select onceward.protect('engagement.user_engagement_states');

create table engagement.state_counts (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null,
    state text not null,                    -- a state, or unreachable, or opted_out
    users bigint not null                   -- a difference: the number is the sum
);
comment on table engagement.state_counts is
    'How many users are in each state, as differences that every change appends: nobody waits for a counter. A schedule adds them up.';
create index state_counts_organization on engagement.state_counts (organization_id, state) include (users);
select onceward.protect('engagement.state_counts');
revoke insert, update, delete on engagement.state_counts from onceward_app;

create table engagement.transactions (
    organization_id uuid not null default onceward.organization(),
    id uuid not null default gen_random_uuid(),
    user_id uuid not null,
    created_at timestamptz not null default onceward.now(),
    primary key (organization_id, id),
    foreign key (organization_id, user_id) references engagement.user_profiles on delete cascade
);
create index idx_engagement_transactions on engagement.transactions (organization_id, user_id, created_at);
select onceward.protect('engagement.transactions');

create table engagement.transitions (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null default onceward.organization(),
    user_id uuid not null,
    at timestamptz not null default onceward.now(),
    from_state text not null,
    to_state text not null,
    trigger text not null,
    held_out boolean not null default false,    -- the goodbye was left out, to measure what it achieves
    caused_by bigint default onceward.cause()
);
comment on table engagement.transitions is 'Every change of a state. Written with the change, never changed.';
create index transitions_user on engagement.transitions (organization_id, user_id, id desc);
create index transitions_caused_by on engagement.transitions (caused_by) where caused_by is not null;
create index transitions_at on engagement.transitions (organization_id, at);
select onceward.protect('engagement.transitions');
revoke update on engagement.transitions from onceward_app;

create table engagement.returns (
    organization_id uuid not null default onceward.organization(),
    day date not null,                      -- of the goodbye, UTC
    held_out boolean not null,
    users bigint not null,
    returned bigint not null,               -- within 14 days
    primary key (organization_id, day, held_out)
);
comment on table engagement.returns is 'How many users came back after the goodbyes of a day, with a goodbye and in the holdout group.';
select onceward.protect('engagement.returns');

create table engagement.pauses (
    organization_id uuid not null default onceward.organization(),
    campaign text not null check (campaign in ('goodbye', 'weekly_review')),
    paused_at timestamptz not null default onceward.now(),
    paused_by text not null,
    primary key (organization_id, campaign)
);
comment on table engagement.pauses is 'Campaigns that an organization has paused: the runs queue no message of them.';
select onceward.protect('engagement.pauses');

-- The end of a batch of a run; users change state too often to follow each change.
select onceward.watch('onceward.run_parts');
