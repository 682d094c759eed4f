-- Return unpaid payments whose page must be closed and whose job has not done it, and look again in ten minutes.
with due as (
    select id from onceward.payments
     where close_at <= onceward.now() - interval '1 minute' and closed_at is null and status in ('created', 'open')
       and (ask_at is null or ask_at <= onceward.now())
     order by close_at limit $1 for update skip locked
)
update onceward.payments p set ask_at = onceward.now() + interval '10 minutes', asks = p.asks + 1
  from due where p.id = due.id
returning p.id, p.organization_id
