-- Remember the apps that live workers run, and forget those that nobody has run for 30 days.
with live as (
    select distinct a as name from onceward.workers w, unnest(w.apps) a order by 1
), noted as (
    insert into onceward.apps as k (name) select name from live
    on conflict (name) do update set seen_at = onceward.now() where k.seen_at < onceward.now() - interval '1 minute'
)
delete from onceward.apps where seen_at < onceward.now() - interval '30 days'
