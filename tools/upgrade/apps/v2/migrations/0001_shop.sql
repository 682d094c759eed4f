-- The effects of each webhook, and orders with a label.
create schema shop;
create table shop.effects (kind text not null, n int not null, release int not null);
create index on shop.effects (n);
create table shop.orders (n int primary key, label text not null);
grant usage on schema shop to onceward_app;
grant select, insert, update on all tables in schema shop to onceward_app;
