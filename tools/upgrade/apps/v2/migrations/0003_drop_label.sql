-- onceward: contract after 0002
alter table shop.orders drop column label;
