-- Return the id of the last of the next $2 rows of work after the id $1, or no row if there are fewer.
select id from onceward.work where id > $1 order by id offset $2 - 1 limit 1
