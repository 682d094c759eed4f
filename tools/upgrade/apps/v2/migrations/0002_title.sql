-- Titles replace labels. Code of the first release still writes labels.
-- onceward: expand
alter table shop.orders add column title text;
alter table shop.orders alter column label drop not null;
alter table shop.effects add column noted_at timestamptz default clock_timestamp();
