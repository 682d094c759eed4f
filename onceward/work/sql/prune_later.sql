-- Delete jobs that were unfinished when the mark passed them and have finished since, with their attempts. At most $1.
with done as (
    select p.id from onceward.prune_later p
     where p.name = 'jobs' and not exists (select from onceward.work w where w.id = p.id) limit $1
), gone as (
    delete from onceward.jobs j using done d where j.id = d.id
), spent as (
    delete from onceward.attempts a using done d where a.work_id = d.id
), forgotten as (
    delete from onceward.prune_later p using done d where p.name = 'jobs' and p.id = d.id
)
select count(*) from done
