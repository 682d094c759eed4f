-- Lock the messages that reports are about, in the order of their ids, and return each with the number of its report.
-- $1 references of the service, $2 ids of ours, $3 channels; null where a report does not name one.
with reported as (
    select * from unnest($1::text[], $2::bigint[], $3::text[]) with ordinality as r(reference, id, channel, number)
), found as materialized (
    select r.number, coalesce(
        (select m.id from onceward.messages m
          where m.reference = r.reference and (r.channel is null or m.channel = r.channel) limit 1),
        -- A key without a reference: the service reported before we stored its answer, or it never answered. Another
        -- installation on the same account uses the same keys, so a message with another reference is not the one reported.
        (select m.id from onceward.messages m
          where m.id = r.id and (m.reference is null or r.reference is null)
            and (r.channel is null or m.channel = r.channel))) as id
      from reported r
)
select f.number, m.id, m.organization_id, m.key, m.channel, m.template, m.recipient, m.reference, m.status, m.delivery, m.reason
  from found f join onceward.messages m on m.id = f.id
 order by m.id, f.number
   for no key update of m
