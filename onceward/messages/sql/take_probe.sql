-- Let one message probe an account or template whose time has come. Return no row if another one does.
update onceward.account_troubles t
   set probes = t.probes + 1,
       probe_at = clock_timestamp() + make_interval(secs => least($3::float8, $2::float8 * 2 ^ least(t.probes, 20)))
 where t.id = $1 and t.probe_at <= clock_timestamp()
returning id
