-- Find audit entries that are neither sealed nor about to be sealed.
select a.id
from onceward.audit_log a
left join (select distinct unnest(ids) as id from onceward.audit_seals) s on s.id = a.id
left join onceward.audit_pending p on p.id = a.id
where s.id is null and p.id is null
order by a.id limit 100
