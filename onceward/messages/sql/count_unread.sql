-- Count the unread dashboard messages of these recipients, 1000 at most.
select count(*) from (
    select from onceward.dashboard_messages
     where recipient = any($1::text[]) and ($2::uuid is null or organization_id = $2) and read_at is null limit 1000
) unread
