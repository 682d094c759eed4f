-- Return whether a payload contains what a wait asks for. A payload that jsonb cannot represent contains nothing.
create or replace function onceward.json_contains(p_payload json, p_match jsonb) returns boolean language plpgsql immutable as $$
begin
    return p_payload::jsonb @> p_match;
exception when data_exception then
    return false;
end
$$;
