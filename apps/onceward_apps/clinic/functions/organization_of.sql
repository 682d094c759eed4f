-- The clinic that a thing belongs to, for a source that serves several clinics.
create or replace function clinic.organization_of(p_kind text, p_id text) returns uuid
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
-- The clinic of an appointment or room, for a source that serves several clinics.
    select case p_kind
        when 'appointment' then (select organization_id from clinic.appointments
                                where id = case when p_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_id::uuid end)
        when 'room' then (select min(organization_id::text)::uuid from clinic.rooms
                           where room_name = p_id and appointment_id is not null having count(*) = 1)
        end
$$;
revoke all on function clinic.organization_of(text, text) from public;
grant execute on function clinic.organization_of(text, text) to onceward_app, onceward_engine;
