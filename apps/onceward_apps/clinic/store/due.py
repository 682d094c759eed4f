"""What the schedules look for, over all clinics."""

PLAN_REMINDERS = """
-- Set the first reminder of appointments that are new, were moved, or were planned for other hours ($1, $2).
with stale as (
    (select id from clinic.appointments where status in ('scheduled', 'confirmed') and reminder_plan < $1 limit $3)
    union all
    (select id from clinic.appointments where status in ('scheduled', 'confirmed') and reminder_plan > $1 limit $3)
    limit $3
), locked as (
    select a.id, a.starts_at, a.booked_at from clinic.appointments a join stale using (id)
     order by a.id for update of a skip locked
), planned as (
    update clinic.appointments a
       set reminder_plan = $1,
           next_reminder_at = (select min(l.starts_at - make_interval(hours => hour)) from unnest($2::int[]) hour
                                where l.starts_at - make_interval(hours => hour) >= l.booked_at)
      from locked l where a.id = l.id
    returning a.id
)
select count(*) from planned
"""
REMINDERS = """
-- The next appointments with a due reminder, after ($1, $2). Which reminder it is, is decided under the lock.
select id, organization_id, next_reminder_at from clinic.appointments
 where status in ('scheduled', 'confirmed') and next_reminder_at is not null and next_reminder_at <= onceward.now()
   and (next_reminder_at, id) > ($1, $2)
 order by next_reminder_at, id limit $3
"""
SILENT_MESSAGES = """
-- Texts that Twilio took long ago without a final report. After two days a report is worth nothing.
select m.id, m.organization_id, m.reference
  from onceward.messages m
 where m.template like 'clinic.%' and m.channel = 'sms' and m.status = 'success' and m.reference is not null
   and (m.delivery is null or m.delivery in ('accepted', 'queued', 'sending', 'sent'))
   and m.sent_at <= onceward.now() - make_interval(secs => $1::float8 * 60)
   and m.sent_at > onceward.now() - interval '2 days'
 order by m.sent_at limit 1000
"""
UNCHECKED_ROOMS = """
-- Rooms whose meeting ended some minutes ago, checked once an hour for two days.
select r.room_name, r.organization_id
  from clinic.rooms r
 where exists (select from clinic.meetings m
                where m.organization_id = r.organization_id and m.room_name = r.room_name
                  and m.ended_at between onceward.now() - interval '2 days' and onceward.now() - interval '10 minutes')
   and (r.checked_at is null or r.checked_at <= onceward.now() - interval '1 hour')
 order by r.checked_at nulls first limit 1000
"""
CLINICS_WITH_ROOMS = """
select distinct r.organization_id, r.organization_id as id from clinic.rooms r
 where r.first_seen_at > onceward.now() - interval '30 days'
"""
ERASED_RECORDINGS = """
-- Recordings of erased patients that Daily still has.
select recording_id, organization_id from clinic.recordings where status = 'deleting' order by updated_at limit 1000
"""
