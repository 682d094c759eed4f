create table orders (
    order_id text primary key,
    amount int not null,
    packed_at timestamptz
);
-- Handlers act as this role.
grant select, insert, update on orders to onceward_app;
