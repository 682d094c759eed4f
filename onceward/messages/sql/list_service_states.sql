-- Return what services have reported about our accounts, the latest first.
select s.service, s.account, s.subject, s.state, s.reason, s.is_bad, s.changed_at, s.organization_id
  from onceward.service_states s
 where ($1::text is null or s.service = $1) and s.state <> 'known'
 order by s.changed_at desc
 limit 1000
