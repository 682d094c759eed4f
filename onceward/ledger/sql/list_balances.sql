-- Return the balances of an organization.
select * from onceward.ledger_balances
where organization_id = $1 and ($2::text is null or currency = $2)
order by currency, code
