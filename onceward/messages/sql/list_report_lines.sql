-- Return the lines of a report: equal notices once, with their number, the most frequent first.
select title, details ->> 'reason' as reason, count(*) as number
  from onceward.notices where group_key = $1 and told_in = $2
 group by 1, 2 order by 3 desc, 1 limit $3
