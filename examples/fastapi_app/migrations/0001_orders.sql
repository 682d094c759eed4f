create table orders (
    id int not null,
    packed boolean not null default false,
    unique (id) deferrable initially deferred -- checked at the commit
);
grant select, insert, update on orders to onceward_app;
