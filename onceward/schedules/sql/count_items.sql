-- Count the items of one step of a run by organization and outcome, over all attempts of the run.
select organization_id, outcome, count(*) as items from onceward.run_items
 where scope = $1 and step = $2 and run_id = $3 group by organization_id, outcome
