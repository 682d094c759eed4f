-- Return the most severe notice of a report, with the number of notices in the report and the time of the first.
select *, count(*) over () as total, min(created_at) over () as first_at
  from onceward.notices where group_key = $1 and told_in = $2
 order by array_position(array['fatal', 'error', 'warn', 'info'], severity), id limit 1
