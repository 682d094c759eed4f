-- Delete the entries of digests whose message ended long ago.
delete from onceward.digest_entries e
 using onceward.messages m
 where e.created_at < onceward.now() - $1::interval and m.id = e.message and m.status not in ('pending', 'processing')
