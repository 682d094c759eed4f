-- Return the organization of an event, order, ticket, door or place in a waitlist. Buyers belong to no organization, so
-- row-level security shows them nothing before this lookup.
-- Ids are random, and the function reveals only the id of an organization. A draft is not found: buyers see an event
-- from its first day of sale on.
create or replace function ticketing.organization_of(p_kind text, p_id uuid) returns uuid
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    case p_kind
        when 'event' then return (select organization_id from ticketing.events where id = p_id and status <> 'draft');
        when 'checkout' then return (select organization_id from ticketing.checkouts where id = p_id);
        when 'ticket' then return (select organization_id from ticketing.tickets where id = p_id);
        when 'door' then return (select organization_id from ticketing.doors where id = p_id);
        when 'waitlist' then return (select organization_id from ticketing.waitlist where id = p_id);
        else raise exception 'kind % is none of event, checkout, ticket, door, waitlist', p_kind;
    end case;
end
$$;

revoke all on function ticketing.organization_of(text, uuid) from public;
grant execute on function ticketing.organization_of(text, uuid) to onceward_app, onceward_engine;
