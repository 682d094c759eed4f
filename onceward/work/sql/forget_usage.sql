-- Delete at most $1 rows about the use more than 31 days ago; return how many.
with gone as (
    delete from onceward.usage u
     where u.ctid = any(array(
        select o.ctid from onceward.usage o where o.hour < onceward.now() - interval '31 days'
         order by o.hour limit $1 for update skip locked))
    returning 1
)
select count(*)::int from gone
