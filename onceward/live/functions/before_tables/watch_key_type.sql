-- Return how a key column is written to the feed, or raise an error if its type cannot be a key.
create or replace function onceward.watch_key_type(target regclass, key text) returns text
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    found record;
begin
    select t.typname, t.typtype into found
      from pg_attribute a join pg_type t on t.oid = a.atttypid
     where a.attrelid = target and a.attname = key and a.attnum > 0 and not a.attisdropped;
    if found is null then
        raise exception 'table % has no column %', target, key using errcode = 'undefined_column';
    end if;
    -- Only types whose equal values have the same text: numeric 1 and 1.0 are equal, but their texts differ.
    if found.typtype = 'e' or found.typname in ('text', 'varchar') then return 'text';
    elsif found.typname = 'uuid' then return 'uuid';
    elsif found.typname in ('int2', 'int4', 'int8') then return 'int';
    elsif found.typname = 'bool' then return 'bool';
    end if;
    raise exception 'column % of % is of type %; a watched key must be uuid, text, an integer, boolean or an enum',
        key, target, found.typname using errcode = 'datatype_mismatch';
end
$$;

revoke all on function onceward.watch_key_type(regclass, text) from public;
