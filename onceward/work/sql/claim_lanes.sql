-- Claim due work lane by lane (onceward.claim_lanes), with the columns of work in the order of `claim.sql`.
select id, kind, task, organization_id, attempts, crashes, max_attempts, bundle, lane, args, caused_by, tags, context,
       last_lane, visited, resume_s, plain, follows
  from onceward.claim_lanes($1, $2, $3, $4, $5, $6, $7, $8)
