"""What the schedules look for, over all clinics."""

REMINDERS = """
-- Appointments of the next hours. Which reminder is due is decided again under the lock of the appointment.
select a.id, a.organization_id from clinic.appointments a
 where a.status in ('scheduled', 'confirmed')
   and a.starts_at > onceward.now() and a.starts_at <= onceward.now() + make_interval(hours => $1::int)
 order by a.starts_at limit 20000
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
