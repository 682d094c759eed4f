-- Store the versions of templates that a release brings. A version that is known already keeps its first release and time.
insert into onceward.templates (name, version, content, release)
select name, version, content, $4 from unnest($1::text[], $2::text[], $3::jsonb[]) as t (name, version, content)
on conflict do nothing
