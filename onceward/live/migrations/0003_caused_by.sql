-- What an event caused is found by its cause: `onceward trace` must not read a whole table for it.

create index topic_messages_caused_by on onceward.topic_messages (caused_by) where caused_by is not null;
