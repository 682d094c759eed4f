-- Store the differences that a check found, each once. One that was found before keeps its time, and is open again.
insert into onceward.payment_differences (account_id, organization_id, payment_id, kind, reference, detail)
select $1, f.organization_id, f.payment_id, f.kind, f.reference, f.detail
  from unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[]) f (organization_id, payment_id, kind, reference, detail)
on conflict (account_id, kind, reference) do update set detail = excluded.detail, resolved_at = null
