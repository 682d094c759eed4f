-- What services say of our accounts, numbers and templates, with what to do if they refuse one. Bad ones first.
select s.service as who, s.account, s.subject, s.state, s.reason, null as advice, s.is_bad, s.changed_at, o.slug
  from onceward.service_states s
  left join onceward.organizations o on o.organization_id = s.organization_id
 where s.state <> 'known'
union all
select t.channel, '', coalesce('template ' || t.template || coalesce(' (' || t.language || ')', ''), 'account'),
    'refused', t.reason, t.advice, true, t.since, o.slug
  from onceward.account_troubles t
  left join onceward.organizations o on o.organization_id = t.organization_id
 order by 7 desc, 8 desc
 limit 200
