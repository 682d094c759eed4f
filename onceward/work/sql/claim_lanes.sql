-- Claim due work lane by lane (onceward.claim_lanes), with the columns of work in the order of `claim.sql`.
select id, kind, task, organization_id, attempts, crashes, max_attempts, bundle, lane, args, caused_by, tags, context, line, follows, claim
  from onceward.claim_lanes(
           $queue, $tasks, $most, $lease, $worker, $suspect, $together, $fair,
           $line, $lane, $left, $mark_lines, $mark_lanes, $missed_lines, $missed_lanes)
