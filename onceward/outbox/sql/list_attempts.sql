-- List the attempts of one delivery with the responses, in the order in which they ended.
select a.number, a.outcome, a.started_at, a.finished_at,
       (coalesce(a.result, a.error) ->> 'status')::int as status, (coalesce(a.result, a.error) ->> 'ms')::int as ms,
       coalesce(a.result, a.error) ->> 'response' as response, a.error ->> 'message' as error
  from onceward.attempts a where a.work_id = $1 order by a.number, a.finished_at
