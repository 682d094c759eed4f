create table orders (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    product text not null,
    price bigint not null,
    state text not null default 'open' check (state in ('open', 'sold', 'returned'))
);
-- An organization sees its own orders only.
select onceward.protect('orders');
