-- Count how many columns of a sealed place exist: the row id, and the sealed column with its type.
select count(*) from pg_attribute
  where attrelid = to_regclass($1) and attname = any($2) and not attisdropped and
  (attname <> $3 or atttypid = 'bytea'::regtype)
