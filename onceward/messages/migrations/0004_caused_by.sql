-- What an event caused is found by its cause: `onceward trace` must not read a whole table for it.

create index notices_caused_by on onceward.notices (caused_by) where caused_by is not null;
create index notifications_caused_by on onceward.notifications (caused_by) where caused_by is not null;
