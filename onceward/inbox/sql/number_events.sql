-- Return numbers for events that arrived together, in the order of their arrival, and the time.
select nextval('onceward.ids') as seq, onceward.now() as received_at from generate_series(1, $1::int)
