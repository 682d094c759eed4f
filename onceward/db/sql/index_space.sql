-- Return the size of each valid btree index, and an estimate of what a rebuild would return. An entry has a header of 8 bytes
-- and 4 bytes in the page; equal keys are stored once, so the estimate is rather too low than too high.
select i.schemaname || '.' || i.indexrelname as name, i.schemaname || '.' || i.relname as table,
       pg_relation_size(i.indexrelid) as bytes,
       greatest(0, pg_relation_size(i.indexrelid) - 2 * 8192
           - (greatest(c.reltuples, 0) * (4 + 8 * ceil((8 + w.width) / 8.0)) / 0.9)::bigint) as free_bytes
  from pg_stat_user_indexes i
  join pg_class c on c.oid = i.indexrelid
  join pg_am m on m.oid = c.relam and m.amname = 'btree'
  join pg_index x on x.indexrelid = i.indexrelid and x.indisvalid
 cross join lateral (
    -- The columns of the table, and the expressions of the index, which have statistics under its own name.
    select coalesce(sum(greatest(8, coalesce(p.avg_width, 16))), 8) as width
      from unnest(x.indkey::smallint[]) with ordinality k (column_number, place)
      left join pg_attribute a on a.attrelid = case when k.column_number = 0 then x.indexrelid else x.indrelid end
                              and a.attnum = case when k.column_number = 0 then k.place::smallint else k.column_number end
      left join pg_stats p on p.schemaname = i.schemaname and p.attname = a.attname
                          and p.tablename = case when k.column_number = 0 then i.indexrelname else i.relname end) w
 order by 4 desc
