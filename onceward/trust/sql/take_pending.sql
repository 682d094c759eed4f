-- Take the oldest audit entries that wait for their seal.
delete from onceward.audit_pending
where id = any (array(select id from onceward.audit_pending order by id limit $1))
returning id
