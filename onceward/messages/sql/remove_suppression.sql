-- Allow mail to an address again, given as the address or as the beginning of its hash. Return the beginning of the hash.
delete from onceward.suppressions s
 where s.organization_id is not distinct from $1
   and (s.address_hash = onceward.person_hash($2) or (length($2) >= 12 and s.address_hash like $2 || '%' and $2 !~ '[^0-9a-f]'))
returning left(s.address_hash, 12)
