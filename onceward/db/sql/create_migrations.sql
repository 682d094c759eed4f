-- Create the schema and the tables of applied migrations and functions, if they do not exist.
create schema if not exists onceward;
create table if not exists onceward.migrations (
    owner text not null,
    number int not null,
    name text not null,
    checksum text not null,
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
