-- End the differences of what was compared again and agrees now.
update onceward.payment_differences set resolved_at = onceward.now()
 where account_id = $1 and resolved_at is null and (payment_id = any ($2::uuid[]) or reference = any ($3::text[]))
   and (kind, reference) not in (select * from unnest($4::text[], $5::text[]))
