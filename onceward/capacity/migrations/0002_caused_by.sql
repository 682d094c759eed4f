-- What an event caused is found by its cause: `onceward trace` must not read a whole table for it.

create index capacity_pools_caused_by on onceward.capacity_pools (caused_by) where caused_by is not null;
