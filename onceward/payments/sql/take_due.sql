-- Return rows without an end whose time to be asked about has come, and set their next time: later with every question.
with due as (
    select id, organization_id, asks from onceward.{table}
     where ask_at <= onceward.now() order by ask_at limit $1 for update skip locked
)
update onceward.{table} t
   set asks = due.asks + 1,
       ask_at = onceward.now() + case when due.asks >= 7 then interval '3 days'
                                      else (array['10 min', '30 min', '2 h', '6 h', '1 day', '1 day', '2 days']
                                            ::interval[])[due.asks + 1] end
  from due where t.id = due.id
returning t.id, t.organization_id
