-- Return whether a worker is sending a message over this channel, to this address or to a ref, whose reference is not stored.
select exists (
    select from onceward.work w join onceward.messages m on m.id = w.id
     where w.queue = any($1::text[]) and m.sending is not null and m.reference is null
       and (m.address is null or $2::text is null or m.address = $2)
)
