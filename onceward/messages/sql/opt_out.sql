-- Store that a recipient wants no messages of a category on a channel.
insert into onceward.opt_outs (organization_id, recipient, channel, category, source) values ($1, $2, $3, $4, $5)
on conflict do nothing
