-- Return the line in which work waits: that of its organization and fair key. 0: it has neither. A claim gives every line its turn.
-- The lines of an organization follow each other: the first 40 bits are a hash of it, the last 24 one of the fair key (0: none, never all
-- ones). Without an organization the first 40 bits are 0.
create or replace function onceward.line_of(p_organization uuid, p_fair_key text) returns bigint
    language sql immutable parallel safe as $$
    select case when p_organization is null then 0
                else coalesce(nullif(uuid_hash_extended(p_organization, 0) & -16777216, 0), 16777216) end
           | case when p_fair_key is null then 0 else 1 + (hashtextextended(p_fair_key, 0) & 9223372036854775807) % 16777214 end
$$;

-- Return the owner of a line, by its first line: an organization, or a fair key of work without one.
create or replace function onceward.owner_of(p_line bigint) returns bigint language sql immutable parallel safe as $$
    select case when p_line between 0 and 16777215 then p_line else p_line & -16777216 end
$$;

-- Return a line after all lines of an owner and before those of the next one.
create or replace function onceward.end_of_owner(p_owner bigint) returns bigint language sql immutable parallel safe as $$
    select case when p_owner between 0 and 16777214 then p_owner + 1 else p_owner | 16777215 end
$$;
