-- Return the binary columns of a table.
select attname::text from pg_attribute
 where attrelid = to_regclass($1) and atttypid = 'bytea'::regtype and attnum > 0 and not attisdropped
