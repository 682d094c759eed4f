-- Store the limits of an endpoint on its lanes, so that they also apply to deliveries that already wait.
insert into onceward.lanes (queue, lane, cap, rate_per_s)
select q, $1::text, case when $3 then 1 else $2::smallint end, $4 from unnest(array['deliveries', 'deliveries-retry']) q
on conflict (queue, lane) do update set cap = excluded.cap, rate_per_s = excluded.rate_per_s, next_at = null
