-- Check for the last time whether messages may be sent, and record the sends that begin, in one commit. In the order of
-- ids, so that two commits cannot wait for each other.
select i.number, onceward.begin_send(i.id, i.lease, i.blind, i.again) as verdict
  from (select * from unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::boolean[])
            with ordinality as u (id, lease, blind, again, number) order by id offset 0) i
