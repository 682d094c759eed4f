-- Store which organization owns an account at a service. What is known about the account stays.
insert into onceward.service_states (organization_id, service, account, subject, state, is_bad, changed_at)
values ($1, $2, $3, 'account', 'known', false, '-infinity')
on conflict do nothing
