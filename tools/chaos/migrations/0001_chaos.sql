-- What the handlers of the chaos app have done. There is no unique key: an effect that happens twice must become visible.
create schema chaos;
create table chaos.effects (
    id bigint generated always as identity primary key,   -- also the order in time, whatever the clocks say
    kind text not null,
    ref bigint not null,                   -- the number of the webhook that caused it
    position int not null default 0,
    started bigint                         -- an id taken when the handler began
);
create index on chaos.effects (kind, ref);
grant usage on schema chaos to onceward_app, onceward_engine;
grant select, insert on chaos.effects to onceward_app, onceward_engine;
grant usage on all sequences in schema chaos to onceward_app, onceward_engine;
select onceward.watch('chaos.effects', key => 'kind');
