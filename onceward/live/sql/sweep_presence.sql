-- Delete presence that has expired, or whose node no longer reports.
delete from onceward.presence p
 where p.expires_at <= onceward.now()
    or (p.node is not null and not exists
        (select from onceward.live_nodes n where n.node = p.node and n.expires_at > onceward.now()))
