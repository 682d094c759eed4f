-- Lock a scan for one turn. No row: another process has locked it.
select * from onceward.erasure_scans where id = $1 for update skip locked
