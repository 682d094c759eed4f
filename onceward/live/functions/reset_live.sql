-- Make every node run all live queries again: after a restore, or after writes with session_replication_role = replica.
create or replace function onceward.reset_live() returns bigint
    language sql security definer set search_path = pg_catalog, pg_temp
    as 'update onceward.feed_state set epoch = epoch + 1 returning epoch';

comment on function onceward.reset_live() is
    'Make every node run all live queries again: after a restore, or after writes with session_replication_role = replica.';

revoke all on function onceward.reset_live() from public;
grant execute on function onceward.reset_live() to onceward_engine;
