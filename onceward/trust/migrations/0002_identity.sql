-- Who is asking: people, their place in organizations, keys, sessions, and the secrets we keep for them.
-- Handlers (the app role) may see who belongs to their organization; only the engine hands out or takes away access.

create table onceward.users (
    user_id uuid primary key default gen_random_uuid(),
    email text not null,
    name text not null default '',
    admin boolean not null default false,
    created_at timestamptz not null default onceward.now(),
    disabled_at timestamptz
);
create unique index users_email on onceward.users (lower(email));
comment on column onceward.users.admin is 'Sees the whole instance: every organization, workers, limits, system_metrics.';
grant select, insert, update, delete on onceward.users to onceward_engine;

create table onceward.memberships (
    organization_id uuid not null references onceward.organizations on delete cascade,
    user_id uuid not null references onceward.users on delete cascade,
    role text not null check (role in ('owner', 'operator', 'viewer')),
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
    hash bytea not null,                   -- sha256 of the whole key; the key itself is shown once and kept nowhere
    scopes text[] not null check (cardinality(scopes) > 0 and scopes <@ array['viewer', 'operator', 'owner', 'admin']),
    created_by text not null,
    created_at timestamptz not null default onceward.now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    check ((organization_id is null) = ('admin' = any (scopes)))
);
comment on table onceward.api_keys is 'A key belongs to one organization; one without an organization has the scope admin.';
create index api_keys_organization on onceward.api_keys (organization_id);
select onceward.protect('onceward.api_keys');
revoke select, insert, update, delete on onceward.api_keys from onceward_app;
grant select (key_id, organization_id, name, prefix, scopes, created_by, created_at, expires_at, revoked_at, last_used_at)
    on onceward.api_keys to onceward_app;

create table onceward.sessions (
    hash bytea primary key,
    user_id uuid not null references onceward.users on delete cascade,
    created_at timestamptz not null default onceward.now(),
    expires_at timestamptz not null
);
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

-- Unlogged: a count that a crash sets back to zero costs an attacker's minute, not data.
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
    value bytea not null,                  -- sealed: bound to this table, row and column
    created_at timestamptz not null default onceward.now(),
    unique nulls not distinct (organization_id, name)
);
select onceward.protect('onceward.secrets');
