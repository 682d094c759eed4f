-- Delete those of the jobs $2 that are older than $1 and finished, with their attempts and checkpoints. Return the ids of the others:
-- they are unfinished or dead letters.
with gone as (
    delete from onceward.jobs j
     where j.id = any($2::bigint[]) and j.created_at < onceward.now() - $1::interval
       and not exists (select from onceward.work w where w.id = j.id)
    returning j.id
), spent as (
    delete from onceward.attempts a using gone g where a.work_id = g.id
), saved as (
    delete from onceward.checkpoints c using gone g where c.work_id = g.id
)
select j.id from onceward.jobs j where j.id = any($2::bigint[]) and not exists (select from gone g where g.id = j.id)
