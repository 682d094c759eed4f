-- Return the current snapshot as the first position in the feed, with epoch and life.
select pg_current_snapshot()::text as snapshot, epoch,
       coalesce((select life from onceward.feed_life), onceward.begin_feed_life()) as life
  from onceward.feed_state
