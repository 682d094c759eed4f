-- What services refuse, for the overview: whole accounts first, then templates, the oldest first. One more than are shown.
select t.channel, t.template, t.language, t.advice, t.organization_id is not null as owned, o.slug
  from onceward.account_troubles t
  left join onceward.organizations o on o.organization_id = t.organization_id
 order by t.template is not null, t.since, t.id
 limit 6
