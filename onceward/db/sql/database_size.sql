-- Return the size of this database, the directory of the server if it listens on this machine's socket and the caller
-- may know it, and the sizes of the $1 largest tables with their indexes. The pages of all tables are known from
-- statistics: only the largest are measured.
select pg_database_size(current_database()) as bytes,
       case when inet_server_addr() is null and pg_has_role('pg_read_all_settings', 'usage')
            then (select s.setting from pg_settings s where s.name = 'data_directory') end as directory,
       (select jsonb_object_agg(t.name, t.bytes)
          from (select c.oid::regclass::text as name, pg_total_relation_size(c.oid) as bytes
                  from pg_class c join pg_namespace n on n.oid = c.relnamespace
                 where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')
                 order by c.relpages desc limit $1) t) as tables
