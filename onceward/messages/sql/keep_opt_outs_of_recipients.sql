-- Keep the opt-outs of erased recipients under hashes. An opt-out under the ref also applies to the addresses, which are
-- deleted with the recipient.
insert into onceward.opt_outs (organization_id, recipient, channel, category, source, created_at)
select o.organization_id, 'erased:' || onceward.person_hash(known.name), o.channel, o.category, o.source, o.created_at
  from onceward.recipients t
 cross join lateral unnest(array[t.ref, t.email, t.phone, t.whatsapp]) as known (name)
  join onceward.opt_outs o on o.organization_id is not distinct from t.organization_id
   and o.recipient in (t.ref, 'erased:' || onceward.person_hash(t.ref))
 where t.ctid = any($1::text[]::tid[]) and known.name is not null
on conflict do nothing
