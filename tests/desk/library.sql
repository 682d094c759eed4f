-- The tables of the made-up library.
create schema library;
grant usage on schema library to onceward_app;
create table library.books (
    id uuid primary key default gen_random_uuid(), organization_id uuid not null,
    title text not null, author text not null,
    about text not null default '', price bigint not null default 0, currency text not null default 'EUR',
    cover bytea, state text not null default 'in', added_at timestamptz not null default now(),
    constraint reference_books_stay check (title <> 'Atlas' or state = 'in'));
create unique index one_title on library.books (organization_id, title) where title = 'Atlas';
create index on library.books (organization_id, added_at, id);
create index on library.books using gin (to_tsvector('simple', coalesce(title, '') || ' ' || coalesce(author, '')));
create table library.loans (
    id uuid primary key default gen_random_uuid(), organization_id uuid not null,
    book_id uuid not null, reader text not null,
    lent_at timestamptz not null default now());
create index on library.loans (book_id);
select onceward.protect('library.books'); select onceward.protect('library.loans');
