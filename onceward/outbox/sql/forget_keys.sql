-- Delete rows that are kept only for their key, after the period in which duplicates are detected.
delete from onceward.published p
 where p.id in (select id from onceward.published where body is null and created_at < onceward.now() - $1::interval limit 1000)
