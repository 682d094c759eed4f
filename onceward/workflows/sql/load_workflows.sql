-- Return claimed workflows as the runner needs them.
select id, name, key, version, args, ending, error, attributes, parent_id, parent_position, onceward.now() as now,
       (select moves from onceward.server_timeline) as clock_moves
  from onceward.workflows where id = any($1::bigint[])
