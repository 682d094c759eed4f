-- Return the line in which work waits: that of its organization and fair key. 0: it has neither. A claim gives every line its turn.
create or replace function onceward.line_of(p_organization uuid, p_fair_key text) returns bigint
    language sql immutable parallel safe as $$
    select case when p_organization is null and p_fair_key is null then 0
                else uuid_hash_extended(coalesce(p_organization, '00000000-0000-0000-0000-000000000000'),
                                        case when p_fair_key is null then 0 else hashtextextended(p_fair_key, 0) end) end
$$;
