-- What this transaction has started: the messages, jobs and workflows with ids above $1 that it, or a savepoint of it, inserted.
with mine as materialized (select pg_current_xact_id()::xid::text::bigint as first)
select 'message' as kind, m.template as name, count(*) from onceward.messages m, mine
 where m.id > $1 and m.xmin::text::bigint >= mine.first group by 2
union all
select 'job', w.task, count(*) from onceward.work w, mine
 where w.id > $1 and w.kind = 'job' and w.task not like 'onceward.%' and w.xmin::text::bigint >= mine.first group by 2
union all
select 'workflow', f.name, count(*) from onceward.workflows f, mine
 where f.id > $1 and f.xmin::text::bigint >= mine.first group by 2
order by 1, 2
