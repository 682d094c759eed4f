-- An event that does not take place: when that was decided, and why. The workflow `event:<id>` gives the money back.

alter table ticketing.events
    add column cancelled_at timestamptz,
    add column cancel_reason text;
