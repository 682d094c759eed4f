create schema shop;
create table shop.orders (
    order_id text primary key,
    amount int not null,
    packed_at timestamptz
);
grant usage on schema shop to onceward_app;
grant select, insert, update on shop.orders to onceward_app;
