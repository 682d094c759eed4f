-- Keep opt-outs of an erased person under a hash of the address, so that the person still gets no messages.
insert into onceward.opt_outs (organization_id, recipient, channel, category, source, created_at)
select t.organization_id, 'erased:' || onceward.person_hash(t.recipient), t.channel, t.category, t.source, t.created_at
  from onceward.opt_outs t where t.ctid = any($1::text[]::tid[])
on conflict do nothing
