-- Find audit entries with an id above $1 that are neither in a seal with a number above $2 nor about to be sealed.
select a.id
from onceward.audit_log a
left join (select distinct unnest(ids) as id from onceward.audit_seals where number > $2) s on s.id = a.id
left join onceward.audit_pending p on p.id = a.id
where a.id > $1 and s.id is null and p.id is null
order by a.id limit 100
