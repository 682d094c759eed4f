-- Claim due work lane by lane (onceward.claim_lanes), with the columns of work in the order of `claim.sql`.
select id, kind, task, organization_id, attempts, crashes, max_attempts, bundle, lane, args, caused_by, tags, context, line, follows, claim
  from onceward.claim_lanes($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
