-- A clinic is an organization: its patients, appointments, messages, video rooms and recordings. Payments are in
-- `onceward.payments`, with the type `appointment`.

create schema clinic;
grant usage on schema clinic to onceward_engine, onceward_app, onceward_sql_worker, onceward_organization_worker;

create table clinic.clinics (
    organization_id uuid primary key default onceward.organization(),
    name text not null,
    timezone text not null default 'UTC',
    locale text not null default 'en',
    country_code text check (country_code ~ '^[1-9][0-9]{0,2}$'),   -- of numbers that are written without one
    updated_at timestamptz not null default onceward.now()
);
select onceward.protect('clinic.clinics');

create table clinic.patients (
    organization_id uuid not null default onceward.organization(),
    id uuid not null default gen_random_uuid(),
    reference text,                         -- the clinic's own number of the patient
    name text not null,
    phone text,                             -- + and digits
    whatsapp text,                          -- + and digits
    email text,
    locale text,
    created_at timestamptz not null default onceward.now(),
    updated_at timestamptz not null default onceward.now(),
    erased_at timestamptz,
    primary key (organization_id, id)
);
create unique index patients_reference on clinic.patients (organization_id, reference) where reference is not null;
create index patients_newest on clinic.patients (organization_id, created_at, id);
create index patients_phone on clinic.patients (organization_id, phone) where phone is not null;
create index patients_whatsapp on clinic.patients (organization_id, whatsapp) where whatsapp is not null;
create index patients_name on clinic.patients (organization_id, lower(name));
create index patients_email on clinic.patients (organization_id, lower(email)) where email is not null;
select onceward.protect('clinic.patients');

create table clinic.contacts (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    number text not null,                   -- + and digits; a family may share it
    heard_at timestamptz,
    acknowledged_at timestamptz,            -- the last automatic acknowledgement
    opted_out_at timestamptz,
    unique (organization_id, number),
    unique (id, organization_id)
);
select onceward.protect('clinic.contacts');

create table clinic.doctors (
    organization_id uuid not null default onceward.organization(),
    id uuid not null default gen_random_uuid(),
    name text not null,
    created_at timestamptz not null default onceward.now(),
    primary key (organization_id, id),
    unique (organization_id, name)
);
create index doctors_newest on clinic.doctors (organization_id, created_at, id);
select onceward.protect('clinic.doctors');

create table clinic.appointments (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    patient_id uuid not null,
    doctor_id uuid,
    starts_at timestamptz not null,
    duration_minutes int not null default 30 check (duration_minutes between 5 and 1440),
    status text not null default 'scheduled'
        check (status in ('scheduled', 'confirmed', 'in_progress', 'completed', 'cancelled', 'no_show')),
    status_changed_at timestamptz not null default onceward.now(),
    booked_at timestamptz not null default onceward.now(),      -- when starts_at was set
    reminder_plan text not null default '',                     -- the hours that next_reminder_at follows; empty: not planned yet
    next_reminder_at timestamptz,
    price bigint not null default 0 check (price >= 0),         -- in minor units
    currency text not null default 'USD' check (currency ~ '^[A-Z]{3}$'),
    payment_status text not null default 'unpaid' check (payment_status in
        ('not_required', 'unpaid', 'pending', 'failed', 'paid', 'review', 'refund_pending', 'partially_refunded', 'refunded',
         'disputed', 'charged_back')),
    payment_links int not null default 0,
    payment_link_at timestamptz,                                -- when the last payment link was sent
    payment_url text,
    room_name text,
    room_url text,
    meeting_started_at timestamptz,
    meeting_ended_at timestamptz,
    cancelled_by text check (cancelled_by in ('clinic', 'patient')),
    cancellation_reason text,
    created_at timestamptz not null default onceward.now(),
    unique (organization_id, id),
    foreign key (organization_id, doctor_id) references clinic.doctors (organization_id, id),
    -- An erased patient gets another id, and the appointments follow.
    foreign key (organization_id, patient_id) references clinic.patients (organization_id, id) on update cascade
);
create index appointments_day on clinic.appointments (organization_id, starts_at);
create index appointments_patient on clinic.appointments (organization_id, patient_id, starts_at);
create index appointments_doctor on clinic.appointments (organization_id, doctor_id, starts_at) where doctor_id is not null;
create unique index appointments_one_at_a_time on clinic.appointments (organization_id, patient_id, starts_at)
    where status in ('scheduled', 'confirmed');
comment on index clinic.appointments_one_at_a_time is 'A request that is sent twice creates one appointment.';
create index appointments_to_plan on clinic.appointments (reminder_plan, id) where status in ('scheduled', 'confirmed');
create index appointments_to_remind on clinic.appointments (next_reminder_at, id)
    where status in ('scheduled', 'confirmed') and next_reminder_at is not null;
select onceward.protect('clinic.appointments');

create table clinic.appointment_history (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null default onceward.organization(),
    appointment_id uuid not null,
    at timestamptz not null default onceward.now(),
    from_status text,
    to_status text not null,
    trigger text not null,
    actor text not null,
    caused_by bigint default onceward.cause()
);
comment on table clinic.appointment_history is 'Every change of an appointment. Written with the change, never changed.';
create index history_caused_by on clinic.appointment_history (caused_by) where caused_by is not null;
create index history_appointment on clinic.appointment_history (organization_id, appointment_id, id);
select onceward.protect('clinic.appointment_history');
revoke update on clinic.appointment_history from onceward_app;

create table clinic.inbound_messages (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null default onceward.organization(),
    channel text not null check (channel in ('whatsapp', 'sms')),
    provider_id text not null,              -- wamid or MessageSid
    contact_id uuid,
    patient_id uuid,                        -- null: nobody, or several patients have this number
    appointment_id uuid,
    kind text not null,                     -- text, image, ...
    text text not null default '',
    outcome text not null default 'received',
    needs_answer boolean not null default false,
    answered_at timestamptz,
    answered_by text,
    received_at timestamptz not null default onceward.now(),
    caused_by bigint default onceward.cause(),
    unique (organization_id, channel, provider_id),
    unique (id, organization_id),
    foreign key (contact_id, organization_id) references clinic.contacts (id, organization_id)
);
create index inbound_unanswered on clinic.inbound_messages (organization_id, id) where needs_answer and answered_at is null;
create index inbound_appointment on clinic.inbound_messages (organization_id, appointment_id, id) where appointment_id is not null;
create index inbound_caused_by on clinic.inbound_messages (caused_by) where caused_by is not null;
create index inbound_patient on clinic.inbound_messages (organization_id, patient_id) where patient_id is not null;
create index inbound_contact on clinic.inbound_messages (organization_id, contact_id, id);
select onceward.protect('clinic.inbound_messages');

create table clinic.outgoing (
    message_id bigint primary key,          -- of onceward.messages
    organization_id uuid not null default onceward.organization(),
    kind text not null,                     -- reminder-24h, reply, answer, payment-link, ...
    key text not null,
    contact_id uuid,
    patient_id uuid,
    appointment_id uuid,
    created_at timestamptz not null default onceward.now()
);
create index outgoing_appointment on clinic.outgoing (organization_id, appointment_id, message_id);
create index outgoing_contact on clinic.outgoing (organization_id, contact_id, message_id);
create index outgoing_patient on clinic.outgoing (organization_id, patient_id) where patient_id is not null;
select onceward.protect('clinic.outgoing');

create table clinic.replies (
    organization_id uuid not null default onceward.organization(),
    event_id text not null,                 -- the sender's id of the message that is answered
    message_id bigint not null,
    inbound_id bigint not null,
    created_at timestamptz not null default onceward.now(),
    primary key (organization_id, event_id),
    foreign key (inbound_id, organization_id) references clinic.inbound_messages (id, organization_id)
);
comment on table clinic.replies is 'The one automatic reply to each received message.';
select onceward.protect('clinic.replies');

create table clinic.rooms (
    organization_id uuid not null default onceward.organization(),
    room_name text not null,
    appointment_id uuid,                    -- null: nobody booked this room
    first_seen_at timestamptz not null default onceward.now(),
    checked_at timestamptz,                 -- when its recordings were last compared with Daily
    primary key (organization_id, room_name)
);
create index rooms_name on clinic.rooms (room_name) where appointment_id is not null;
create index rooms_appointment on clinic.rooms (organization_id, appointment_id);
select onceward.protect('clinic.rooms');

create table clinic.meetings (
    organization_id uuid not null default onceward.organization(),
    meeting_id text not null,
    room_name text not null,
    started_at timestamptz not null,
    ended_at timestamptz,
    primary key (organization_id, meeting_id)
);
create index meetings_room on clinic.meetings (organization_id, room_name, started_at);
select onceward.protect('clinic.meetings');

create table clinic.room_participants (
    organization_id uuid not null default onceward.organization(),
    session_id text not null,
    room_name text not null,
    user_id text,
    user_name text,
    is_owner boolean not null default false,
    joined_at timestamptz not null,
    left_at timestamptz,
    duration_s double precision,
    primary key (organization_id, session_id)
);
create index participants_room on clinic.room_participants (organization_id, room_name, joined_at);
select onceward.protect('clinic.room_participants');

create table clinic.recordings (
    organization_id uuid not null default onceward.organization(),
    recording_id text not null,
    room_name text not null,
    status text not null check (status in ('started', 'ready', 'failed', 'deleting', 'deleted')),
    s3_key text,
    duration_s double precision,
    error text,
    started_at timestamptz,
    unclaimed_since timestamptz,            -- of an error that came before its recording, under another id
    updated_at timestamptz not null default onceward.now(),
    primary key (organization_id, recording_id)
);
create index recordings_room on clinic.recordings (organization_id, room_name);
select onceward.protect('clinic.recordings');

select onceward.watch('clinic.appointments');
select onceward.watch('clinic.inbound_messages');
select onceward.watch('clinic.outgoing');
select onceward.watch('clinic.room_participants');
select onceward.watch('clinic.recordings');
