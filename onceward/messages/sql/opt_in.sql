-- Delete the opt-out of a recipient, also one that an erasure kept under a hash, and record the decision if it is new.
with removed as (
    delete from onceward.opt_outs
     where organization_id is not distinct from $organization and channel = $channel and category = $category
       and recipient in ($recipient, 'erased:' || onceward.person_hash($recipient))
    returning true
)
insert into onceward.consents (organization_id, recipient, channel, category, decision, source, wording, actor, message)
select $organization, $recipient, $channel, $category, 'opt_in', $source, $wording::text, $actor::text, $message::bigint
 where exists (select from removed)
    or not exists (select from onceward.consents c
                    where c.recipient = $recipient and c.organization_id is not distinct from $organization
                      and c.channel = $channel and c.category = $category and c.decision = 'opt_in')
