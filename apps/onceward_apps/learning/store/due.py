"""SQL of the schedules: what is due and what is over, of all organizations."""

# All that ends before the next daily check, with an hour to spare: no access ends between two checks without a reminder
# or without its extension.
ACCESS_ENDS = """
select id, organization_id from learning.enrollments
 where status = 'ACTIVE' and access_expires_at < onceward.now() + interval '25 hours'
 order by access_expires_at
"""
# Every cohort that starts within a week, from nine o'clock in its zone on, so that a missed hour or day costs no
# mail. Who has had the mail of a cohort is left out, so that the runs of the same day read nothing again.
STARTING = """
select e.id, e.organization_id from learning.cohorts c join learning.enrollments e on e.cohort_id = c.id
 where c.status = 'CONFIRMED' and c.starts_at > onceward.now() and c.starts_at < onceward.now() + interval '9 days'
   and (c.starts_at at time zone c.time_zone)::date <= (onceward.now() at time zone c.time_zone)::date + 7
   and extract(hour from onceward.now() at time zone c.time_zone) >= 9
   and e.status = 'ACTIVE'
   and e.reminded is distinct from c.id::text || ':' || case
       when (c.starts_at at time zone c.time_zone)::date <= (onceward.now() at time zone c.time_zone)::date + 1
       then 'cohort-starting-tomorrow' else 'cohort-starting-7days' end
 order by c.starts_at, e.id
"""
WITH_WAITLIST = """
select c.id, c.organization_id from learning.cohorts c
 where c.status in ('OPEN', 'CONFIRMED') and c.starts_at > onceward.now()
   and exists (select from learning.waitlist_entries w where w.cohort_id = c.id and w.status = 'ACTIVE')
 order by c.starts_at
"""
EXPIRED_INVITES = """
select id, organization_id, cohort_id from learning.waitlist_invites
 where status = 'SENT' and expires_at <= onceward.now() order by expires_at
"""
TO_START = """
select id, organization_id, status from learning.cohorts
 where status in ('OPEN', 'CONFIRMED') and starts_at <= onceward.now()
   and (status = 'CONFIRMED' or unstarted_alert_at is null)
 order by starts_at
"""
TO_END = """
select id, organization_id from learning.cohorts where status = 'IN_PROGRESS' and ends_at <= onceward.now()
 order by ends_at
"""
# The oldest rows come first in the order of an index, so that a batch reads no younger rows than its own number.
FORGET = """
with old as (
    delete from learning.{table} where ctid = any(array(
        select x.ctid from (select ctid, {column} from learning.{table} order by {order} limit $1) x
         where x.{column} < onceward.now() - interval '{days} days'))
    returning 1)
select count(*) from old
"""
OLD_RECORDS = tuple(
    FORGET.format(table=table, column=column, order=order, days=days)
    for table, column, order, days in (
        ("sign_in_links", "expires_at", "expires_at", 30),
        ("student_sessions", "expires_at", "expires_at", 30),
        ("page_views", "viewed_at", "id", 30),
        ("crm_sync_log", "synced_at", "id", 30),
        ("activity_log", "happened_at", "id", 400),
    )
)
"""Each deletes one batch of rows that nothing reads any more, and returns how many they were."""
