-- Return the indexes in whose order a table can be read in windows, the most suitable first: their values do not change and few rows
-- have the same. `complete`: every row is in it, also one without an organization.
with columns as (
    select i.indexrelid, i.indrelid, i.indisprimary, i.indisunique, i.indpred is not null as partial, n,
           pg_get_indexdef(i.indexrelid, n, true) as name, format_type(k.atttypid, k.atttypmod) as type,
           coalesce(a.attnotnull, false) or pg_get_indexdef(i.indexrelid, n, true) like 'COALESCE(%' as filled,
           i.indoption[n - 1] = 0 and a.attname is distinct from 'updated_at' as usable
      from pg_index i
      join pg_class c on c.oid = i.indexrelid
      join pg_am m on m.oid = c.relam and m.amname = 'btree'
     cross join generate_series(1, i.indnkeyatts) n
      join pg_attribute k on k.attrelid = i.indexrelid and k.attnum = n
      left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[n - 1] and i.indkey[n - 1] > 0
     where i.indrelid = to_regclass($1) and i.indisvalid
       and (i.indpred is null or pg_get_expr(i.indpred, i.indrelid) = '(organization_id IS NOT NULL)')
)
select array_agg(name order by n) as columns, array_agg(type order by n) as types, bool_and(filled) and not partial as complete
  from columns c
 group by indexrelid, indrelid, indisprimary, indisunique, partial
having bool_and(usable and (filled or n = 1 and name = 'organization_id'))
   and (indisunique or not exists (select from pg_index p where p.indrelid = c.indrelid and p.indisunique and p.indpred is null)
        or array_agg(name) @> (select array_agg(pg_get_indexdef(p.indexrelid, k, true))
                                 from pg_index p, generate_series(1, p.indnkeyatts) k
                                where p.indrelid = c.indrelid and p.indisprimary))
 order by indisprimary desc, indisunique desc, count(*), indexrelid
