-- Enqueue an on_end hook as a job of its own, because it failed in the transaction of the outcome.
select r.id from onceward.enqueue_one(
    $1, $2, $3, null, 0, null, 'unfinished', 'skip', null, null, false, null, null, null, null, null, $4, $5, null) r
