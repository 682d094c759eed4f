-- Return the organization of a cohort, user, enrolment, checkout, sign-in link or certificate. Visitors and webhooks belong to no
-- organization, so row-level security shows them nothing before this lookup. It reveals only the id of an organization.
create or replace function learning.organization_of(p_kind text, p_id text) returns uuid
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    id_text constant text := '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
begin
    case p_kind
        when 'credential' then return (select organization_id from learning.certificates where credential_id = p_id);
        when 'domain' then return (select organization_id from learning.schools where domain = lower(p_id));
        when 'invite' then
            return (select organization_id from learning.waitlist_invites where token_hash = sha256(convert_to(p_id, 'UTF8')));
        when 'seats' then
            return (select organization_id from learning.seat_blocks where token_hash = sha256(convert_to(p_id, 'UTF8')));
        when 'sign_in_link' then
            return (select organization_id from learning.sign_in_links where token_hash = sha256(convert_to(p_id, 'UTF8')));
        when 'student_session' then
            return (select organization_id from learning.student_sessions where token_hash = sha256(convert_to(p_id, 'UTF8')));
        when 'booking' then
            return (select organization_id from learning.bookings where uid = p_id or earlier_uids @> array[p_id] limit 1);
        when 'cohort', 'user', 'enrollment', 'checkout' then
            if lower(p_id) !~ id_text then
                return null;
            end if;
            case p_kind
                when 'cohort' then return (select organization_id from learning.cohorts where id = p_id::uuid);
                when 'user' then return (select organization_id from learning.users where id = p_id::uuid);
                when 'checkout' then return (select organization_id from learning.checkouts where id = p_id::uuid);
                else return (select organization_id from learning.enrollments where id = p_id::uuid);
            end case;
        else raise exception 'kind % is not one that learning.organization_of knows', p_kind;
    end case;
end
$$;

revoke all on function learning.organization_of(text, text) from public;
grant execute on function learning.organization_of(text, text) to onceward_app, onceward_engine;
