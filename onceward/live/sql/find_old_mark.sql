-- Return the newest snapshot that is older than the retention: everything that it sees may be deleted.
select snapshot::text from onceward.feed_marks
 where taken_at <= clock_timestamp() - make_interval(secs => $1) order by taken_at desc limit 1
