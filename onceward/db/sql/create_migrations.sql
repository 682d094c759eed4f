-- Create the schema and the tables of applied migrations, functions and running processes, if they do not exist.
create schema if not exists onceward;
create table if not exists onceward.migrations (
    owner text not null,
    number int not null,
    name text not null,
    checksum text not null,
    -- The migration that code must have to run on this schema: 0 for any code, null if the file does not say.
    requires int,
    applied_at timestamptz not null default clock_timestamp(),
    primary key (owner, number)
);
create table if not exists onceward.functions (
    owner text not null,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default clock_timestamp(),
    primary key (owner, name, checksum)
);
-- The privileges and policies of our roles, as statements that create them again (privileges.py).
create table if not exists onceward.privileges (
    key text primary key,
    statement text not null
);
create table if not exists onceward.processes (
    id uuid primary key,
    service text not null,
    host text not null,
    pid int not null,
    version text not null,
    -- The number of the last migration of each owner that the code has.
    knows jsonb not null,
    -- The background loops that keep failing or hang, each with the type of its last error.
    failing jsonb not null default '{}',
    -- How many handlers inside requests ignore their time limit, by name.
    overdue jsonb not null default '{}',
    -- How many connections it opens outside its pool, and how many its pool may have at most; 0 behind PgBouncer.
    outside int not null default 0,
    pool int not null default 0,
    started_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp()
);
