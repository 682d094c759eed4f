-- Store that a recipient wants no messages of a category on a channel, and record the decision if it is new.
with stored as (
    insert into onceward.opt_outs (organization_id, recipient, channel, category, source)
    values ($organization, $recipient, $channel, $category, $source)
    on conflict do nothing
    returning true
)
insert into onceward.consents (organization_id, recipient, channel, category, decision, source, wording, actor, message)
select $organization, $recipient, $channel, $category, 'opt_out', $source, $wording::text, $actor::text, $message::bigint from stored
