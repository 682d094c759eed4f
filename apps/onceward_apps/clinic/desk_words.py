"""What the staff reads on the desk instead of codes, and the history of an appointment."""

from __future__ import annotations

APPOINTMENT = {
    "scheduled": "Not confirmed yet",
    "confirmed": "Confirmed",
    "in_progress": "In the room",
    "completed": "Done",
    "cancelled": "Cancelled",
    "no_show": "Did not come",
}
PAYMENT = {
    "not_required": "Costs nothing",
    "unpaid": "Not paid",
    "pending": "Link sent",
    "failed": "Payment failed",
    "paid": "Paid",
    "review": "Needs a look",
    "refund_pending": "Refund on its way",
    "partially_refunded": "Partly refunded",
    "refunded": "Refunded",
    "disputed": "Disputed",
    "charged_back": "Taken back by the bank",
}
PAID = {
    "created": "Asked for",
    "open": "Not paid yet",
    "processing": "At the bank",
    "paid": "Paid",
    "partly_refunded": "Partly refunded",
    "refunded": "Refunded",
    "disputed": "Disputed",
    "lost": "Taken back by the bank",
    "failed": "Failed",
    "expired": "Expired",
}
ROOM = {
    "none": "No video room",
    "creating": "Being created",
    "ready": "Ready",
    "waiting": "The patient waits",
    "on": "Meeting",
    "ended": "Ended",
}
ROOM_STATE = """
case when r.room_name is null then 'none' when r.room_url is null then 'creating'
     when exists (select from clinic.room_participants n where n.organization_id = r.organization_id
                   and n.room_name = r.room_name and n.left_at is null)
     then case when exists (select from clinic.room_participants n where n.organization_id = r.organization_id
                             and n.room_name = r.room_name and n.left_at is null and n.is_owner)
               then 'on' else 'waiting' end
     when r.meeting_ended_at is not null then 'ended' else 'ready' end
"""
CANCELLED_BY = {"clinic": "The clinic", "patient": "The patient"}
CHANNEL = {"whatsapp": "WhatsApp", "sms": "Text message"}
HISTORY = """
with numbers as (
    select c.organization_id, c.id as contact_id
      from clinic.appointments a join clinic.patients p on p.organization_id = a.organization_id and p.id = a.patient_id
      join clinic.contacts c on c.organization_id = p.organization_id and c.number in (p.whatsapp, p.phone)
     where a.id = $1::text::uuid
)
select h.at, case h.trigger when 'reschedule' then 'Moved to another time' when 'created' then 'Booked'
       when 'restore' then 'The cancellation was undone' else
         case h.to_status when 'scheduled' then 'Booked' when 'confirmed' then 'Confirmed'
              when 'in_progress' then 'The meeting began' when 'completed' then 'The meeting ended'
              when 'cancelled' then 'Cancelled' else 'Did not come' end end as what,
       h.actor as who
  from clinic.appointment_history h where h.appointment_id = $1::text::uuid
union all
select o.created_at,
       coalesce('We wrote: ' || left(m.data->>'text', 200), 'Message to the patient: ' || replace(o.kind, '-', ' ')), ''
  from numbers n join clinic.outgoing o on o.organization_id = n.organization_id and o.contact_id = n.contact_id
  left join onceward.messages m on m.id = o.message_id
union all
select i.received_at, 'The patient wrote: ' || left(coalesce(nullif(i.text, ''), '(' || i.kind || ')'), 200), ''
  from numbers n join clinic.inbound_messages i on i.organization_id = n.organization_id and i.contact_id = n.contact_id
union all
select p.joined_at, coalesce(p.user_name, 'Somebody') || ' joined the video room', '' from clinic.room_participants p
  join clinic.appointments a on a.room_name = p.room_name and a.organization_id = p.organization_id
 where a.id = $1::text::uuid
"""
