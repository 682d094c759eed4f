-- Start one workflow, or return the one that has the same key.
select id, duplicate from onceward.start_workflow(
    $1, $2, $3, $4, $5, coalesce($6::timestamptz, onceward.now() + make_interval(secs => $7)), $8, $9, $10, $11)
