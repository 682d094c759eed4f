-- Notices for administrators. Any part writes them in its own transaction; messages turns them into mail, Slack messages and
-- dashboard entries, and puts many notices into one message.

create table onceward.notices (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid,
    type text not null,
    severity text not null check (severity in ('info', 'warn', 'error', 'fatal')),
    title text not null,
    details jsonb not null default '{}',
    channels text[],                        -- null: mail, Slack and dashboard
    audience text not null default 'admin' check (audience in ('admin', 'fraud', 'accounting', 'security')),
    group_key text not null,                -- notices of one group share a message
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    told_at timestamptz,                    -- when it became part of a notification
    told_in bigint,                         -- the notification that contains it
    told_to uuid                            -- the organization whose owners read it; null: the installation
);
comment on table onceward.notices is
    'Notices for administrators. They are written in the transaction of their cause, and the notifier sends them.';
create index notices_untold on onceward.notices (group_key, id) where told_at is null;
create index notices_told on onceward.notices (group_key, told_at desc) where told_at is not null;
select onceward.protect('onceward.notices');

-- Messages: one row is the queue entry, the timer, the unique key and the record. Its row in work exists until it is sent.

create table onceward.templates (
    organization_id uuid,
    name text not null,
    version text not null,                  -- hash of the content, so that the same text has the same version on every node
    content jsonb not null,
    release text,                           -- ONCEWARD_RELEASE of the process that brought it: who changed the text
    created_at timestamptz not null default onceward.now()
);
create unique index templates_version on onceward.templates
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), name, version);
comment on table onceward.templates is
    'Every version of a template that a process started with or a message was queued with. '
    'An edit does not change messages that are already queued.';
select onceward.protect('onceward.templates');
revoke update, delete on onceward.templates from onceward_app;

create table onceward.current_templates (
    name text primary key,
    version text not null,
    max_attempts int,                       -- of its policy
    own jsonb not null                      -- by channel: the secrets of which any one gives an organization its own account
);
comment on table onceward.current_templates is
    'The version of each template that the latest process started with, for onceward.send.';
grant select on onceward.current_templates to onceward_app;
grant select, insert, update on onceward.current_templates to onceward_engine;

create table onceward.recipients (
    organization_id uuid,
    ref text not null,                      -- the id of the person in the application
    email text,
    phone text,
    whatsapp text,
    whatsapp_group text,
    slack text,
    push jsonb,                             -- endpoint, p256dh, auth
    locale text,
    timezone text,
    preferred_channel text,
    destination text not null default 'individual' check (destination in ('individual', 'group')),
    quiet_from time,
    quiet_to time,
    heard_at timestamptz,                   -- the last message from them, which opens the 24-hour window of WhatsApp
    updated_at timestamptz not null default onceward.now()
);
create unique index recipients_ref on onceward.recipients
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), ref);
create index recipients_whatsapp on onceward.recipients (whatsapp) where whatsapp is not null;
-- Finds a person by any name. Without a list of changes, because each search would read that list.
create index recipients_names on onceward.recipients
    using gin (array_remove(array[lower(ref), lower(email), lower(phone), lower(whatsapp), lower(slack)], null))
    with (fastupdate = off);
select onceward.protect('onceward.recipients');

create table onceward.opt_outs (
    organization_id uuid,
    recipient text not null,                -- a ref, an address in lower case, or `erased:` and the onceward.person_hash
    channel text not null default '*',
    category text not null default '*',
    source text not null,
    created_at timestamptz not null default onceward.now()
);
create unique index opt_outs_key on onceward.opt_outs
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), recipient, channel, category);
select onceward.protect('onceward.opt_outs');

create table onceward.consents (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid,
    recipient text not null,                -- as in opt_outs
    channel text not null,
    category text not null,                 -- the purpose
    decision text not null check (decision in ('opt_in', 'opt_out')),
    source text not null,                   -- how: reply, link, api, the name of a form
    wording text,                           -- what the person wrote, or the text that the person agreed to
    actor text,                             -- who recorded it, if it was not the person
    message bigint,                         -- the message whose link was used
    decided_at timestamptz not null default onceward.now()
);
comment on table onceward.consents is
    'Every opt-in and opt-out: who, when, how, and by which text. Append-only; an erasure replaces names by hashes.';
create index consents_recipient on onceward.consents (recipient, id);
select onceward.protect('onceward.consents');
revoke update, delete on onceward.consents from onceward_app;

create table onceward.notifications (
    id bigint primary key,
    organization_id uuid,
    type text not null,
    severity text not null check (severity in ('info', 'warn', 'error', 'fatal')),
    channels text[] not null,
    recipients int not null,
    round smallint not null default 1,      -- 2: failed channels get one more attempt
    remaining int not null,
    sent int not null default 0,
    failed int not null default 0,
    key text,
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    finished_at timestamptz
);
comment on table onceward.notifications is 'One notification over several channels, and the result of all its messages.';
create unique index notifications_key on onceward.notifications
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key) where key is not null;
select onceward.protect('onceward.notifications');

create table onceward.messages (
    id bigint primary key,
    organization_id uuid,
    key text not null,                      -- kept for ever: a second message with the same key is not created
    channel text not null,
    template text not null,
    version text not null,
    category text not null default 'transactional',
    data jsonb,
    locale text,
    timezone text,
    recipient text not null,                -- a ref, or the address itself
    address text,                           -- null: looked up by ref at the time of sending
    attachments jsonb,                      -- files of the file store: path, name, content_type, inline
    policy text not null default 'quick',
    bulk boolean not null default false,    -- goes after all that is not
    scheduled_for timestamptz,
    expires_at timestamptz,                 -- not sent at this time or later
    notification bigint,
    token uuid,                             -- identifies this message in its unsubscribe link
    status text not null default 'pending' check (status in
        ('pending', 'processing', 'success', 'failed', 'dead_letter', 'cancelled', 'expired', 'unknown')),
    reason text,                            -- why it was not sent
    sending bigint,                         -- the lease of the latest send, until the service answers
    sending_since timestamptz,
    unsure_since timestamptz,               -- when the first send without an answer began; later attempts do not clear it
    blind boolean,                          -- that send can neither be repeated nor looked up
    attempts smallint not null default 0,
    reference text,                         -- the id at the service
    delivery text,                          -- what the service reported later: delivered, read, bounced
    sent_at timestamptz,
    caused_by bigint,
    context jsonb,                          -- request id, user and tier of the request that caused it, if there is one
    created_at timestamptz not null default onceward.now()
) with (fillfactor = 85);
comment on table onceward.messages is
    'Messages to recipients. The text is rendered at the time of sending, from the template version of the time of queueing.';
create unique index messages_key on onceward.messages
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key);
create index messages_caused_by on onceward.messages (caused_by) where caused_by is not null;
create index messages_notification on onceward.messages (notification) where notification is not null;
create index messages_token on onceward.messages (token) where token is not null;
create index messages_reference on onceward.messages (reference) where reference is not null;
-- Only messages that wait have an entry, so the search for expired ones reads nothing else.
create index messages_expiring on onceward.messages (expires_at)
    where expires_at is not null and status in ('pending', 'processing');
create index messages_created on onceward.messages using brin (created_at);   -- reports read the messages of a period
create index messages_recipient on onceward.messages (recipient, id desc);
create index messages_organization on onceward.messages (organization_id, id) where organization_id is not null;
select onceward.protect('onceward.messages');

-- Phone numbers that people write to. Only the engine writes them, after a proof: see messages/senders.py.
create table onceward.senders (
    kind text not null check (kind in ('whatsapp', 'twilio')),
    identifier text not null,               -- the phone number id of WhatsApp, or the number at Twilio
    organization_id uuid not null,
    proof text not null check (proof in ('account', 'administrator')),
    proven_at timestamptz not null default onceward.now(),
    primary key (kind, identifier)
);
comment on table onceward.senders is
    'The organization that has proven a phone number, for webhooks of a source that serves several organizations.';
create index senders_by_organization on onceward.senders (organization_id);
select onceward.protect('onceward.senders');
revoke insert, update, delete on onceward.senders from onceward_app;

create table onceward.preference_links (
    token_hash bytea primary key,           -- the link itself is only in the message
    organization_id uuid,
    recipient text not null,                -- a ref, or an address in lower case
    created_at timestamptz not null default onceward.now(),
    expires_at timestamptz not null,
    revoked_at timestamptz
);
comment on table onceward.preference_links is 'Links that open the preference page of a recipient without a login.';
create index preference_links_recipient on onceward.preference_links (recipient);
create index preference_links_expired on onceward.preference_links (expires_at);
select onceward.protect('onceward.preference_links');

-- Recipients who get the mails of a topic together. See messages/digests.py.
create table onceward.digest_choices (
    organization_id uuid,
    recipient text not null,                -- as in opt_outs
    category text not null,
    period text not null check (period in ('daily', 'weekly')),
    changed_at timestamptz not null default onceward.now()
);
comment on table onceward.digest_choices is 'Topics of which a recipient gets one mail a day or a week instead of single ones.';
create unique index digest_choices_key on onceward.digest_choices
    (recipient, category, coalesce(organization_id, '00000000-0000-0000-0000-000000000000'));
select onceward.protect('onceward.digest_choices');

create table onceward.digest_entries (
    message bigint primary key,             -- it ends as the digest does
    digest bigint not null,                 -- a message too
    organization_id uuid,
    is_included boolean not null default false,   -- set when the digest is closed
    created_at timestamptz not null default onceward.now()
);
comment on table onceward.digest_entries is 'Messages that wait for the digest of their recipient.';
create index digest_entries_digest on onceward.digest_entries (digest);
create index digest_entries_created on onceward.digest_entries (created_at);
select onceward.protect('onceward.digest_entries');

-- Addresses that get no more mail. The hash decides; an erasure removes the address and keeps the hash.
create table onceward.suppressions (
    organization_id uuid,
    address_hash text not null,             -- onceward.person_hash of the address
    address text,                           -- null after an erasure
    reason text not null check (reason in ('bounce', 'complaint', 'operator')),
    status text,                            -- the enhanced status code of the bounce
    source text not null,
    message bigint,                         -- the mail that bounced
    created_at timestamptz not null default onceward.now()
);
comment on table onceward.suppressions is
    'Addresses that get no more mail of an organization, because mail bounced or the recipient complained.';
create unique index suppressions_key on onceward.suppressions
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), address_hash);
create index suppressions_latest on onceward.suppressions (created_at desc);
create index suppressions_hash on onceward.suppressions (address_hash);
create index suppressions_latest_of on onceward.suppressions (organization_id, created_at desc);
create index suppressions_address on onceward.suppressions (address) where address is not null;
select onceward.protect('onceward.suppressions');

create table onceward.mail_domains (
    id uuid primary key,
    organization_id uuid,
    domain text not null,
    selector text not null,
    sender text,                            -- `Name <address>` of the organization's mails
    private_key bytea not null,             -- encrypted
    created_at timestamptz not null default onceward.now(),
    verified_at timestamptz                 -- when DNS had the public key; without it the key signs nothing
);
comment on table onceward.mail_domains is 'Domains that mail is sent from, each with its DKIM key.';
create unique index mail_domains_key on onceward.mail_domains
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), domain);
select onceward.protect('onceward.mail_domains');
revoke all on onceward.mail_domains from onceward_app;

create table onceward.service_states (
    organization_id uuid,
    service text not null,
    account text not null,                  -- the id of our account at the service
    subject text not null,                  -- `account`, or what changed: `template:reminder/en_US`, `number:15550100200`
    state text not null,                    -- in the words of the service; `known`: it has reported nothing
    reason text,
    is_bad boolean not null,
    changed_at timestamptz not null
);
comment on table onceward.service_states is
    'What services report about our accounts by webhook. A later report replaces an earlier one.';
create unique index service_states_key on onceward.service_states
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), service, account, subject);
create index service_states_account on onceward.service_states (service, account) where subject = 'account';
select onceward.protect('onceward.service_states');
revoke insert, update, delete on onceward.service_states from onceward_app;

create table onceward.dashboard_messages (
    id bigint primary key,
    organization_id uuid,
    recipient text not null,
    type text not null,
    severity text not null,
    title text not null,
    body text not null,
    created_at timestamptz not null default onceward.now(),
    read_at timestamptz
);
create index dashboard_messages_by_recipient on onceward.dashboard_messages (recipient, id desc);
create index dashboard_messages_unread on onceward.dashboard_messages (recipient, id desc) where read_at is null;
-- Every organization has a recipient `admins`.
create index dashboard_messages_of on onceward.dashboard_messages (organization_id, recipient, id desc)
    where organization_id is not null;
select onceward.protect('onceward.dashboard_messages');

-- An unreachable channel is paused: no worker claims from its queue, and no message uses up attempts.
alter table onceward.queues
    add column parked_until timestamptz,
    add column parked_for text,
    add column failures int not null default 0;

-- What an operator must repair: the service refuses the account, or one template of it. Messages wait until a probe succeeds.
create table onceward.account_troubles (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid,                   -- whose account it is; null: the installation's
    channel text not null,
    template text,                          -- null: the whole account
    language text,                          -- of the template, as its files name it: services approve each language by itself
    reason text not null,                   -- the service's code, without addresses
    advice text not null,
    since timestamptz not null default clock_timestamp(),
    checked_at timestamptz not null default clock_timestamp(),   -- a secret that was changed later makes a probe due
    probes int not null default 0,
    probe_at timestamptz not null,          -- when one message may try again
    check ((template is null) = (language is null))
);
comment on table onceward.account_troubles is
    'Accounts and templates that a service refuses. One message at a time probes whether an operator has repaired it.';
create unique index account_troubles_key on onceward.account_troubles (channel, organization_id, template, language) nulls not distinct;
grant select, insert, update, delete on onceward.account_troubles to onceward_engine;
select onceward.protect('onceward.account_troubles');

create table onceward.send_slots (
    scope text primary key,                 -- a channel, sender or recipient with a limit
    next_at timestamptz not null            -- when the next send may begin
) with (fillfactor = 50);
grant select, insert, update, delete on onceward.send_slots to onceward_engine;

-- `onceward trace` finds rows by their cause, and must not read the whole table.

create index notices_caused_by on onceward.notices (caused_by) where caused_by is not null;
create index notifications_caused_by on onceward.notifications (caused_by) where caused_by is not null;

-- A vacuum is due after 2 % of the rows have changed, not after the default 20 %: of 100 million rows that would be 20 million,
-- and the indexes would grow meanwhile.
alter table onceward.messages set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
