-- Return whether an event of this source and type came within the last minute and waits for code that handles it.
select exists (select from onceward.work w
                 join onceward.webhook_events e on e.seq = w.id
                 join onceward.sources s on s.webhook_id = e.webhook_id
                where w.queue = 'unhandled' and s.name = $1 and e.type = $2
                  and e.received_at > onceward.now() - interval '1 minute')
