-- A source that is deleted keeps its row, so that its events keep its name; the name itself is free for another.
alter table onceward.sources add column deleted_at timestamptz;
alter table onceward.sources drop constraint sources_name_key;
create unique index sources_name on onceward.sources (name) where deleted_at is null;
grant select (deleted_at) on onceward.sources to onceward_app;
