-- Store the versions of templates that a release brings, and that they are current. A version that is known already keeps its first
-- release and time.
with versions as (
    insert into onceward.templates (name, version, content, release)
    select name, version, content, $4 from unnest($1::text[], $2::text[], $3::jsonb[]) as t (name, version, content)
    on conflict do nothing
)
insert into onceward.current_templates as c (name, version, max_attempts, own)
select name, version, max_attempts, own from unnest($1::text[], $2::text[], $5::int[], $6::jsonb[]) as t (name, version, max_attempts, own)
order by name
on conflict (name) do update set version = excluded.version, max_attempts = excluded.max_attempts, own = excluded.own
 where (c.version, c.max_attempts, c.own) is distinct from (excluded.version, excluded.max_attempts, excluded.own)
