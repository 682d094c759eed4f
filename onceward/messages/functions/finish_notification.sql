-- Count one finished message of a notification. After the last one, failed messages get one more attempt, five minutes
-- later.
create or replace function onceward.finish_notification(p_message bigint, p_notification bigint, p_sent boolean) returns void
    language plpgsql as $$
declare
    v onceward.notifications;
begin
    update onceward.notifications n
       set remaining = n.remaining - 1, sent = n.sent + case when p_sent then 1 else 0 end,
           failed = n.failed + case when p_sent then 0 else 1 end
     where n.id = p_notification
    returning * into v;
    if v.remaining > 0 then
        return;
    end if;
    if v.round = 1 and v.failed > 0 then
        with again as (
            update onceward.work w
               set dead_reason = null, dead_at = null, attempts = 0, crashes = 0, max_attempts = 1,
                   earlier = onceward.last_attempt(w.id),
                   sort_at = onceward.now() + interval '5 minutes'
              from onceward.messages m
             where m.notification = p_notification and m.status = 'dead_letter' and w.id = m.id
            returning w.id
        ), pending as (
            update onceward.messages m set status = 'pending' from again where m.id = again.id returning m.id
        )
        update onceward.notifications n
           set round = 2, remaining = (select count(*) from pending), failed = n.failed - (select count(*) from pending)
         where n.id = p_notification
        returning * into v;
        if v.remaining > 0 then
            return;
        end if;
    end if;
    update onceward.notifications n set finished_at = onceward.now() where n.id = p_notification;
end
$$;
