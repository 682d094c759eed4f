-- Lock a row of work that is held under this lease until the commit, so that no other worker can take it in between; no
-- row: the lease is lost.
select true from onceward.work where id = $1 and lease = $2 for share
