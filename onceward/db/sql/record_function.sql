-- Note that this version of a function file is in force now.
insert into onceward.functions (owner, name, checksum) values ($1, $2, $3)
on conflict (owner, name, checksum) do update set applied_at = clock_timestamp()
