-- Organizations, users and their access, the audit log, and the sequence of all ids.
-- roles.sql creates the database roles before this file runs.

grant usage on schema onceward to onceward_engine, onceward_app, onceward_sql_worker, onceward_organization_worker, onceward_producer;

grant select on onceward.migrations, onceward.functions, onceward.privileges to onceward_engine;
grant select, insert, update, delete on onceward.processes to onceward_engine;

-- The engine calls every function of the schema, also those that are closed to others, and draws from every sequence.
alter default privileges in schema onceward grant execute on functions to onceward_engine;
alter default privileges in schema onceward grant usage on sequences to onceward_engine;

create sequence onceward.ids;
comment on sequence onceward.ids is
    'One sequence for events, jobs, messages, deliveries, runs and workflows, so that an id identifies one object.';
grant usage on sequence onceward.ids to onceward_engine, onceward_app, onceward_sql_worker, onceward_organization_worker;

create table onceward.organizations (
    organization_id uuid primary key default gen_random_uuid(),
    slug text not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name text not null,
    second_factor_required boolean not null default false,
    weight smallint not null default 1 check (weight between 1 and 100),  -- its turns while work of several organizations waits
    created_at timestamptz not null default onceward.now()
);
select onceward.protect('onceward.organizations');
revoke insert, update, delete on onceward.organizations from onceward_app;
create index organizations_second_factor on onceward.organizations (organization_id) where second_factor_required;

-- Logins of programs in other languages that belong to one organization: workers and producers.
create table onceward.sql_logins (
    login name primary key,
    organization_id uuid not null,         -- no foreign key: without its organization a login sees nothing, instead of everything
    created_at timestamptz not null default clock_timestamp()
);
comment on table onceward.sql_logins is
    'Logins of programs in other languages that belong to one organization. The owner of the tables writes them (`onceward sql-logins`).';
select onceward.protect('onceward.sql_logins');
revoke all on onceward.sql_logins from onceward_app;
revoke insert, update, delete on onceward.sql_logins from onceward_engine;

-- Users, their memberships in organizations, API keys, sessions and stored secrets.
-- Handlers (the app role) can read the members of their organization; only the engine grants or revokes access.

create table onceward.users (
    user_id uuid primary key default gen_random_uuid(),
    email text not null,
    name text not null default '',
    admin boolean not null default false,
    created_at timestamptz not null default onceward.now(),
    disabled_at timestamptz
);
create unique index users_email on onceward.users (lower(email));
comment on column onceward.users.admin is 'An admin can read the whole instance: all organizations, workers, limits and system_metrics.';
grant select, insert, update, delete on onceward.users to onceward_engine;

create table onceward.memberships (
    organization_id uuid not null references onceward.organizations on delete cascade,
    user_id uuid not null references onceward.users on delete cascade,
    role text not null check (role in ('owner', 'operator', 'viewer', 'member')),   -- member: only what its desk roles allow
    desk_roles text[] not null default '{}' check (array_to_string(desk_roles, ' ') ~ '^([a-z0-9_]+[.][a-z0-9_]+ ?)*$'),
    created_at timestamptz not null default onceward.now(),
    primary key (organization_id, user_id)
);
create index memberships_user on onceward.memberships (user_id);
select onceward.protect('onceward.memberships');
revoke insert, update, delete on onceward.memberships from onceward_app;

create table onceward.api_keys (
    key_id uuid primary key default gen_random_uuid(),
    organization_id uuid references onceward.organizations on delete cascade,
    name text not null,
    prefix text not null unique,
    hash bytea not null,                   -- sha256 of the whole key; the key is shown once and never stored
    scopes text[] not null check (cardinality(scopes) > 0 and scopes <@ array['viewer', 'operator', 'owner', 'admin',
        'publish', 'message', 'enqueue', 'work', 'replay', 'refund', 'scan']),
    apps text[] not null default '{}',     -- the key is limited to these apps and sources; empty: no limit
    sources text[] not null default '{}',
    addresses text[] not null default '{}', -- networks from which the key may be used; empty: everywhere
    created_by text not null,
    owner_id uuid references onceward.users, -- the person whose access the key shares; null: created on the command line
    created_at timestamptz not null default onceward.now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    check ((organization_id is null) = ('admin' = any (scopes)))
);
comment on table onceward.api_keys is 'A key belongs to one organization. A key without an organization has the scope admin.';
create index api_keys_organization on onceward.api_keys (organization_id);
select onceward.protect('onceward.api_keys');
revoke select, insert, update, delete on onceward.api_keys from onceward_app;
grant select (key_id, organization_id, name, prefix, scopes, apps, sources, addresses, created_by, owner_id,
    created_at, expires_at, revoked_at, last_used_at)
    on onceward.api_keys to onceward_app;

create table onceward.key_addresses (
    key_id uuid not null references onceward.api_keys on delete cascade,
    address bytea not null,                -- sha256 of the address or network
    first_used_at timestamptz not null default onceward.now(),
    primary key (key_id, address)
);
comment on table onceward.key_addresses is 'From where each key was used in the last 90 days, to notice a use from elsewhere.';
grant select, insert, update, delete on onceward.key_addresses to onceward_engine;

create table onceward.sessions (
    hash bytea primary key,
    session_id uuid not null unique default gen_random_uuid(),
    user_id uuid not null references onceward.users on delete cascade,
    method text not null check (method in ('link', 'passkey', 'single_sign_on')),
    browser text not null default '',      -- for the list of the person's own sessions
    address text not null default '',
    created_at timestamptz not null default onceward.now(),
    expires_at timestamptz not null,
    idle interval,                         -- null: the session does not end when it is idle
    last_seen_at timestamptz not null default onceward.now(),
    confirmed_at timestamptz not null default onceward.now(),
    second_factor_at timestamptz,
    second_factor_required boolean not null default false
);
comment on column onceward.sessions.confirmed_at is 'When the person last proved who they are, which sensitive changes require.';
comment on column onceward.sessions.second_factor_required is
    'Whether the instance required a second factor when the session was opened. An organization can require it too.';
create index sessions_user on onceward.sessions (user_id);
grant select, insert, update, delete on onceward.sessions to onceward_engine;

create table onceward.login_links (
    hash bytea primary key,
    user_id uuid not null references onceward.users on delete cascade,
    created_at timestamptz not null default onceward.now(),
    expires_at timestamptz not null,
    used_at timestamptz
);
create index login_links_user on onceward.login_links (user_id);
grant select, insert, update, delete on onceward.login_links to onceward_engine;

-- A person with a confirmed factor must use one in every session. A passkey also opens a session by itself.
create table onceward.second_factors (
    factor_id uuid primary key default gen_random_uuid(),
    user_id uuid not null references onceward.users on delete cascade,
    kind text not null check (kind in ('totp', 'passkey')),
    name text not null,
    created_at timestamptz not null default onceward.now(),
    confirmed_at timestamptz,              -- null: an authenticator app that has not shown a first code yet
    last_used_at timestamptz,
    secret bytea,                          -- of an authenticator app; encrypted
    last_step bigint not null default 0,   -- the newest time step whose code was used, so that no code works twice
    credential_id bytea unique,            -- of a passkey
    public_key bytea,
    sign_count bigint not null default 0,
    check ((kind = 'totp') = (secret is not null)),
    check ((kind = 'passkey') = (credential_id is not null and public_key is not null))
);
create index second_factors_user on onceward.second_factors (user_id);
grant select, insert, update, delete on onceward.second_factors to onceward_engine;

create table onceward.recovery_codes (
    user_id uuid not null references onceward.users on delete cascade,
    hash bytea not null,                   -- sha256 of a code with 80 random bits
    used_at timestamptz,
    primary key (user_id, hash)
);
grant select, insert, update, delete on onceward.recovery_codes to onceward_engine;

-- The account at the provider of single sign-on. The first sign-in finds the person by address, later ones by subject.
create table onceward.provider_accounts (
    issuer text not null,
    subject text not null,
    user_id uuid not null references onceward.users on delete cascade,
    created_at timestamptz not null default onceward.now(),
    primary key (issuer, subject)
);
create index provider_accounts_user on onceward.provider_accounts (user_id);
grant select, insert, update, delete on onceward.provider_accounts to onceward_engine;

-- Where the web server that started last is reached, so that `onceward users login-link` prints a link to it.
create table onceward.web_address (
    only_row boolean primary key default true check (only_row),
    url text not null,
    started_at timestamptz not null default onceward.now()
);
grant select, insert, update, delete on onceward.web_address to onceward_engine;

-- Unlogged: after a crash the counts begin at zero, which gives an attacker at most one more minute of attempts.
create unlogged table onceward.auth_failures (
    client bytea primary key,              -- sha256 of the address or network
    failures int not null,
    since timestamptz not null
);
grant select, insert, update, delete on onceward.auth_failures to onceward_engine;

create table onceward.secrets (
    secret_id uuid primary key default gen_random_uuid(),
    organization_id uuid references onceward.organizations on delete cascade,
    name text not null,
    value bytea not null,                  -- encrypted, and bound to this table, row and column
    created_at timestamptz not null default onceward.now(),
    changed_at timestamptz not null default onceward.now(),
    unique nulls not distinct (organization_id, name)
);
select onceward.protect('onceward.secrets');

create table onceward.unfinished_commands (
    id bigint generated always as identity primary key,
    command text not null,
    step text not null,
    remedy text not null,
    blocks boolean not null,               -- no process may start before the command has finished
    host text not null,
    pid int not null,
    started_at timestamptz not null default clock_timestamp()
);
comment on table onceward.unfinished_commands is 'Commands of several commits that have not finished. A start names them, or refuses.';
grant select, insert, delete on onceward.unfinished_commands to onceward_engine;

-- The audit log: who did what to which entity. Each entry is written in the transaction of the action; the sealer chains it later.

create table onceward.audit_log (
    -- These columns never change.
    id bigint primary key,
    organization_id uuid default onceward.organization(),
    at timestamptz not null,
    action text not null check (action <> ''),
    entity_type text not null,
    caused_by bigint,
    -- The actor and the entity may name a person, so they can be erased together.
    actor text not null,
    user_id text,
    entity_id text,
    who_salt bytea,
    who_hash bytea not null,
    -- The content may name a person too, and can be erased.
    reason text,
    changes jsonb,
    metadata jsonb,
    content_salt bytea,
    content_hash bytea not null,
    erased_at timestamptz
);
comment on table onceward.audit_log is
    'Append-only. A part whose salt is null has been erased. Its hash stays, and reveals nothing without the salt.';
create index audit_log_entity on onceward.audit_log (entity_type, entity_id);
create index audit_log_organization on onceward.audit_log (organization_id, id);
create index audit_log_caused_by on onceward.audit_log (caused_by) where caused_by is not null;
select onceward.protect('onceward.audit_log');
revoke insert, update, delete on onceward.audit_log from onceward_app;
revoke update, delete on onceward.audit_log from onceward_engine;
grant insert (organization_id, action, entity_type, actor, user_id, entity_id, reason, changes, metadata)
    on onceward.audit_log to onceward_app, onceward_sql_worker;
-- The only allowed change is an erasure; the trigger of audit_erase_only refuses every other UPDATE.
grant update (actor, user_id, entity_id, who_salt, reason, changes, metadata, content_salt, erased_at)
    on onceward.audit_log to onceward_engine;
create policy sql_worker on onceward.audit_log for insert to onceward_sql_worker with check (true);

create table onceward.audit_pending (
    id bigint primary key                  -- of audit_log
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table onceward.audit_pending is
    'Entries that are not sealed yet. The sealer takes them when they become visible, so no order of commits loses an entry.';
grant select, delete on onceward.audit_pending to onceward_engine;

create table onceward.audit_keys (
    key_id uuid primary key,
    key bytea not null,                    -- encrypted: with the database alone nobody can make a link of the chain
    created_at timestamptz not null default clock_timestamp()
);
comment on table onceward.audit_keys is 'The keys of the audit chain. The newest seals; all of them check.';
grant select, insert, update on onceward.audit_keys to onceward_engine;

create table onceward.audit_seals (
    number bigint primary key check (number > 0),
    key_id uuid not null references onceward.audit_keys,
    ids bigint[] not null,
    hashes bytea not null,                 -- 32 bytes for each id
    previous bytea not null,
    hash bytea not null,
    sealed_at timestamptz not null default clock_timestamp()
);
comment on table onceward.audit_seals is
    'The links of the chain: hash = HMAC-SHA256(key, previous, key_id, number, ids, hashes of the entries).';
grant select, insert on onceward.audit_seals to onceward_engine;

create table onceward.proofs (
    name text primary key,                 -- of the check
    mark jsonb not null,                   -- how far the check has proven its rows
    proven_at timestamptz not null default clock_timestamp()
);
comment on table onceward.proofs is
    'Where `onceward verify` and `onceward audit verify` continue. Deleting a row, or --full, checks everything again.';
grant select, insert, update, delete on onceward.proofs to onceward_engine;

-- The schema of the view audit.audit_logs, which SQL scripts of clinics use.
create schema audit;
grant usage on schema audit to onceward_engine, onceward_app, onceward_sql_worker;

-- Failures and near failures of the engine. The engine writes them, and admins of the instance read them. The only allowed
-- change erases a person. There are no foreign keys, because a record outlives its subject.

create table onceward.system_metrics (
    id uuid primary key default gen_random_uuid(),
    event_type text not null check (event_type in ('job_rollback', 'orphaned_job_recovery', 'concurrency_limit_hit',
        'worker_timeout', 'rpc_retry_exhausted', 'duplicate_job_detected')),
    severity text not null check (severity in ('info', 'warn', 'error', 'fatal')),
    user_id uuid,
    subject text,
    job_id text,
    metadata jsonb not null default '{}',
    timestamp timestamptz not null default onceward.now()
);
create index system_metrics_event_type on onceward.system_metrics (event_type, timestamp);
create index system_metrics_severity on onceward.system_metrics (severity, timestamp);
create index system_metrics_timestamp on onceward.system_metrics (timestamp);
create index system_metrics_subject on onceward.system_metrics (subject) where subject is not null;

alter table onceward.system_metrics enable row level security;
create policy engine on onceward.system_metrics for all to onceward_engine using (true) with check (true);
grant select, insert, delete on onceward.system_metrics to onceward_engine;  -- a trigger protects the last 30 days
grant update (user_id, metadata) on onceward.system_metrics to onceward_engine;

-- What `onceward apply` created: the name of an endpoint in the file is nowhere else, and only this may be pruned.
create table onceward.configured (
    section text not null,
    name text not null,
    entity_id text not null,
    primary key (section, name)
);
comment on table onceward.configured is 'What onceward apply created, by section and name in the file.';
grant select, insert, update, delete on onceward.configured to onceward_engine;
