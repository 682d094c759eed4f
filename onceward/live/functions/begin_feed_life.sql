-- Return the number of this life of the server. The first reader after a crash creates it.
create or replace function onceward.begin_feed_life() returns bigint language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    insert into onceward.feed_life default values on conflict do nothing;
    return (select life from onceward.feed_life);
end
$$;

revoke all on function onceward.begin_feed_life() from public;
grant execute on function onceward.begin_feed_life() to onceward_engine;
