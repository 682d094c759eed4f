-- Create the schema and the table of applied migrations, if they do not exist.
create schema if not exists onceward;
create table if not exists onceward.migrations (
    owner text not null,
    number int not null,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default clock_timestamp(),
    primary key (owner, number)
);
