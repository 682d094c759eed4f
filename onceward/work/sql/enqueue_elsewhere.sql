-- Insert one job through a connection that is not ours, as enqueue_unique.sql does, and wake idle workers at its commit.
select r.id, r.duplicate
  from onceward.enqueue_one(
           p_task => $task, p_args => $args::jsonb, p_queue => $queue,
           p_run_at => case when $run_at::timestamptz is null and $delay_s::float8 > 0 then onceward.now() + make_interval(secs => $delay_s)
                            when $run_at > onceward.now() then $run_at end,
           p_boost_s => $boost_s, p_unique_key => $unique_key, p_unique_for => $unique_for, p_on_conflict => $on_conflict,
           p_lane => $lane, p_cap => $cap, p_ordered => $ordered, p_parent => $parent, p_parent_cap => $parent_cap,
           p_max_attempts => $max_attempts, p_tags => $tags::text[], p_bundle => $bundle, p_organization => $organization,
           p_caused_by => $caused_by, p_context => $context::jsonb, p_fair_key => $fair_key) r,
       onceward.wake_idle_workers($queue)
