-- Return unfinished batches of refunds whose job may have died. An unfinished job is not doubled.
update onceward.payment_refund_batches b set look_at = onceward.now() + interval '10 minutes'
 where b.id in (select id from onceward.payment_refund_batches where state in ('running', 'asked') and look_at <= onceward.now()
                 order by look_at limit $1 for update skip locked)
returning b.id, b.organization_id
