-- List the accounts and templates that are paused: refused ones with what to do, unreachable or throttled ones without.
select t.channel, t.organization_id, t.template, t.language, t.reason, t.advice, t.since, t.probe_at as until,
       t.probes as failures
  from onceward.account_troubles t
union all
select substr(q.name, 9), null, null, null, q.parked_for, null, null, q.parked_until, q.failures
  from onceward.queues q
 where q.name like 'message.%' and q.parked_until > clock_timestamp()
   and not exists (select from onceward.account_troubles t
                    where t.organization_id is null and t.template is null and t.channel = substr(q.name, 9))
union all
select split_part(l.queue, '.', 2), l.lane::uuid, null, null, 'the service is unreachable or asked for a pause', null, null,
       l.open_until, l.failures
  from onceward.lanes l
 where l.queue like 'message.%.own' and l.open_until > clock_timestamp() and l.lane not like '%:bulk'
   and not exists (select from onceward.account_troubles t
                    where t.organization_id = l.lane::uuid and t.template is null and t.channel = split_part(l.queue, '.', 2))
 order by 1, 2 nulls first
