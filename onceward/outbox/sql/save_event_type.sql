-- Store an event type. Write nothing if it has not changed.
insert into onceward.event_types as t (name, description, schema, sample, declared_by)
values ($1, $2, $3, $4, $5)
on conflict (name) do update
   set description = excluded.description, schema = excluded.schema, sample = excluded.sample,
       declared_by = excluded.declared_by, changed_at = onceward.now()
 where (t.description, t.schema, t.sample, t.declared_by)
       is distinct from (excluded.description, excluded.schema, excluded.sample, excluded.declared_by)
