-- Remember the address that a key was used from, and write a use from a new one to the audit log. The first address is not news.
-- A key whose addresses change all the time adds at most 20 in an hour.
with used as (
    select count(*) as addresses, count(*) filter (where first_used_at > onceward.now() - interval '1 hour') as recent
      from onceward.key_addresses where key_id = $1
), added as (
    insert into onceward.key_addresses (key_id, address)
    select $1, $2 from used where recent < 20
    on conflict do nothing returning key_id
), entry as (
    insert into onceward.audit_log (organization_id, action, entity_type, entity_id, actor, metadata)
    select $3, 'key.used_from_new_address', 'api_key', $1::text, $4, $5
      from added, used where used.addresses > 0
    returning 1
)
select exists (select from entry) as is_new
