-- Who may see what: organizations, the clock, the one sequence of ids, and `protect` for tenant tables.
-- The database roles are made by roles.sql, which runs before.

grant usage on schema onceward to onceward_engine, onceward_app, onceward_sql_worker;

create sequence onceward.ids;
comment on sequence onceward.ids is 'One sequence for events, jobs, messages, deliveries, runs and workflows: an id names one thing.';
grant usage on sequence onceward.ids to onceward_engine, onceward_app, onceward_sql_worker;

create function onceward.now() returns timestamptz
    language sql stable parallel safe as 'select now()';
comment on function onceward.now() is 'Business time. Tests replace its body to move the clock of one database.';

create function onceward.organization() returns uuid
    language sql stable parallel safe
    as $$select nullif(current_setting('onceward.organization', true), '')::uuid$$;
comment on function onceward.organization() is 'The organization the transaction acts for; null for the platform itself.';

create function onceward.cause() returns bigint
    language sql stable parallel safe
    as $$select nullif(split_part(current_setting('onceward.cause', true), ':', 2), '')::bigint$$;
comment on function onceward.cause() is 'The id of what caused this transaction; null when a person or an unnumbered request did.';

create function onceward.person_hash(reference text) returns text
    language sql immutable parallel safe
    as $$select encode(sha256(convert_to(lower(btrim(reference)), 'UTF8')), 'hex')$$;
comment on function onceward.person_hash(text) is
    'What stays of an address or id after an erasure: enough to recognise it again, not enough to read it.';

create function onceward.protect(target regclass) returns void
    language plpgsql as $$
begin
    execute format('alter table %s enable row level security', target);
    execute format(
        'create policy own_rows on %s for all to onceward_app
            using (organization_id is not distinct from (select onceward.organization()))
            with check (organization_id is not distinct from (select onceward.organization()))', target);
    execute format('create policy engine on %s for all to onceward_engine using (true) with check (true)', target);
    execute format('grant select, insert, update, delete on %s to onceward_app, onceward_engine', target);
end
$$;
comment on function onceward.protect(regclass) is
    'Make a table with organization_id visible to its organization only. Every tenant table calls it in its migration.';
revoke all on function onceward.protect(regclass) from public;

create table onceward.organizations (
    organization_id uuid primary key default gen_random_uuid(),
    slug text not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name text not null,
    created_at timestamptz not null default onceward.now()
);
select onceward.protect('onceward.organizations');
revoke insert, update, delete on onceward.organizations from onceward_app;

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
    changed_at timestamptz not null default onceward.now(),
    unique nulls not distinct (organization_id, name)
);
select onceward.protect('onceward.secrets');

-- Who did what to which entity. Appended in the transaction that did it, chained afterwards by the sealer.

create table onceward.audit_log (
    -- The frame: never changes.
    id bigint primary key,
    organization_id uuid default onceward.organization(),
    at timestamptz not null,
    action text not null check (action <> ''),
    entity_type text not null,
    caused_by bigint,
    -- Who and whom: may name a person, so it can be erased as a whole.
    actor text not null,
    user_id text,
    entity_id text,
    who_salt bytea,
    who_hash bytea not null,
    -- The content: likewise.
    reason text,
    changes jsonb,
    metadata jsonb,
    content_salt bytea,
    content_hash bytea not null,
    erased_at timestamptz
);
comment on table onceward.audit_log is
    'Append-only. A part whose salt is null has been erased; its hash stays, and without the salt tells nothing.';
create index audit_log_entity on onceward.audit_log (entity_type, entity_id);
create index audit_log_organization on onceward.audit_log (organization_id, id);
create index audit_log_caused_by on onceward.audit_log (caused_by) where caused_by is not null;
select onceward.protect('onceward.audit_log');
revoke insert, update, delete on onceward.audit_log from onceward_app;
revoke update, delete on onceward.audit_log from onceward_engine;
grant insert (organization_id, action, entity_type, actor, user_id, entity_id, reason, changes, metadata)
    on onceward.audit_log to onceward_app, onceward_sql_worker;
-- Erasing is the one change there is; what else an UPDATE might do is refused below.
grant update (actor, user_id, entity_id, who_salt, reason, changes, metadata, content_salt, erased_at)
    on onceward.audit_log to onceward_engine;
create policy sql_worker on onceward.audit_log for insert to onceward_sql_worker with check (true);

create table onceward.audit_pending (
    id bigint primary key                  -- of audit_log
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table onceward.audit_pending is
    'Entries the sealer has still to chain: taken as they become visible, so that no order of commits loses one.';
grant select, delete on onceward.audit_pending to onceward_engine;

create table onceward.audit_seals (
    number bigint primary key check (number > 0),
    ids bigint[] not null,
    hashes bytea not null,                 -- 32 bytes for each id
    previous bytea not null,
    hash bytea not null,
    sealed_at timestamptz not null default clock_timestamp()
);
comment on table onceward.audit_seals is 'Links of the chain: hash = sha256(previous, number, ids, hashes of the entries).';
grant select, insert on onceward.audit_seals to onceward_engine;

create function onceward.audit_stamp() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    new.id := nextval('onceward.ids');
    new.at := onceward.now();
    new.caused_by := onceward.cause();
    new.erased_at := null;
    new.who_salt := uuid_send(gen_random_uuid());
    new.who_hash := sha256(new.who_salt || convert_to(jsonb_build_object(
        'actor', new.actor, 'user_id', new.user_id, 'entity_id', new.entity_id)::text, 'UTF8'));
    new.content_salt := uuid_send(gen_random_uuid());
    new.content_hash := sha256(new.content_salt || convert_to(jsonb_build_object(
        'reason', new.reason, 'changes', new.changes, 'metadata', new.metadata)::text, 'UTF8'));
    insert into onceward.audit_pending (id) values (new.id);
    return new;
end
$$;
revoke all on function onceward.audit_stamp() from public;
create trigger stamp before insert on onceward.audit_log for each row execute function onceward.audit_stamp();

create function onceward.refuse_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '%.% is append-only: % is not allowed', tg_table_schema, tg_table_name, lower(tg_op)
        using errcode = 'insufficient_privilege';
end
$$;

create function onceward.audit_erase_only() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if (new.id, new.organization_id, new.at, new.action, new.entity_type, new.caused_by, new.who_hash, new.content_hash)
            is not distinct from
       (old.id, old.organization_id, old.at, old.action, old.entity_type, old.caused_by, old.who_hash, old.content_hash)
       and new.erased_at is not null
       and ((new.actor, new.user_id, new.entity_id, new.who_salt)
                is not distinct from (old.actor, old.user_id, old.entity_id, old.who_salt)
            or (new.actor = 'erased' and num_nonnulls(new.user_id, new.entity_id, new.who_salt) = 0))
       and ((new.reason, new.changes, new.metadata, new.content_salt)
                is not distinct from (old.reason, old.changes, old.metadata, old.content_salt)
            or num_nonnulls(new.reason, new.changes, new.metadata, new.content_salt) = 0)
    then
        return new;
    end if;
    raise exception 'onceward.audit_log is append-only: an entry can be erased, not changed'
        using errcode = 'insufficient_privilege';
end
$$;

create trigger erase_only before update on onceward.audit_log
    for each row execute function onceward.audit_erase_only();
create trigger no_delete before delete on onceward.audit_log
    for each row execute function onceward.refuse_change();
create trigger no_truncate before truncate on onceward.audit_log
    for each statement execute function onceward.refuse_change();
create trigger no_change before update or delete on onceward.audit_seals
    for each row execute function onceward.refuse_change();
create trigger no_truncate before truncate on onceward.audit_seals
    for each statement execute function onceward.refuse_change();
-- Also in a session that plays a replica.
alter table onceward.audit_log enable always trigger erase_only;
alter table onceward.audit_log enable always trigger no_delete;
alter table onceward.audit_log enable always trigger no_truncate;
alter table onceward.audit_seals enable always trigger no_change;
alter table onceward.audit_seals enable always trigger no_truncate;

-- The shape that SQL scripts of clinics know: read through the reader's own rights, and one may insert into it.
create schema audit;
grant usage on schema audit to onceward_engine, onceward_app, onceward_sql_worker;
create view audit.audit_logs with (security_invoker = true) as
    select id, entity_type as table_name, action as operation, changes as row_data,
           user_id as changed_by, organization_id as clinic_id, at as changed_at, entity_id, actor, reason, metadata
    from onceward.audit_log;
grant select on audit.audit_logs to onceward_engine, onceward_app;
grant insert on audit.audit_logs to onceward_engine, onceward_app, onceward_sql_worker;

create function audit.insert_audit_log() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    insert into onceward.audit_log (organization_id, action, entity_type, entity_id, actor, user_id, reason, changes, metadata)
    values (coalesce(new.clinic_id, onceward.organization()), new.operation, new.table_name, new.entity_id,
            coalesce(new.actor, 'user:' || new.changed_by, 'sql:' || session_user), new.changed_by,
            new.reason, new.row_data, new.metadata);
    return new;
end
$$;
create trigger insert_audit_log instead of insert on audit.audit_logs
    for each row execute function audit.insert_audit_log();

-- What went wrong, or nearly, in the engine itself. Written by the engine, read by instance admins. The only
-- change that is allowed erases a person.
-- No foreign keys: the record outlives what it is about.

create table onceward.system_metrics (
    id uuid primary key default gen_random_uuid(),
    event_type text not null check (event_type in ('job_rollback', 'orphaned_job_recovery', 'concurrency_limit_hit',
        'worker_timeout', 'rpc_retry_exhausted', 'duplicate_job_detected')),
    severity text not null check (severity in ('info', 'warn', 'error', 'fatal')),
    user_id uuid,
    course_id uuid,
    job_id text,
    metadata jsonb not null default '{}',
    timestamp timestamptz not null default onceward.now()
);
create index system_metrics_event_type on onceward.system_metrics (event_type, timestamp);
create index system_metrics_severity on onceward.system_metrics (severity, timestamp);
create index system_metrics_timestamp on onceward.system_metrics (timestamp);
create index system_metrics_course on onceward.system_metrics (course_id) where course_id is not null;

alter table onceward.system_metrics enable row level security;
create policy engine on onceward.system_metrics for all to onceward_engine using (true) with check (true);
grant select, insert on onceward.system_metrics to onceward_engine;
grant update (user_id, metadata) on onceward.system_metrics to onceward_engine;

create function onceward.metrics_erase_only() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if (new.id, new.event_type, new.severity, new.course_id, new.job_id, new.timestamp) is not distinct from
       (old.id, old.event_type, old.severity, old.course_id, old.job_id, old.timestamp)
       and (new.user_id is null or new.user_id is not distinct from old.user_id)
       and (new.metadata = '{"erased": true}' or new.metadata = old.metadata)
    then
        return new;
    end if;
    raise exception 'onceward.system_metrics is append-only: an entry can be erased, not changed'
        using errcode = 'insufficient_privilege';
end
$$;
create trigger erase_only before update on onceward.system_metrics
    for each row execute function onceward.metrics_erase_only();
create trigger no_delete before delete on onceward.system_metrics
    for each row execute function onceward.refuse_change();
create trigger no_truncate before truncate on onceward.system_metrics
    for each statement execute function onceward.refuse_change();
alter table onceward.system_metrics enable always trigger erase_only;
alter table onceward.system_metrics enable always trigger no_delete;
alter table onceward.system_metrics enable always trigger no_truncate;
