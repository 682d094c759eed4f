-- Start one workflow, or return the one that has the same key.
select id, duplicate from onceward.start_workflow(
    $name, $args, $key, $version, $attributes,
    coalesce($run_at::timestamptz, onceward.now() + make_interval(secs => $delay_s)), $parent, $position, $organization, $caused_by)
