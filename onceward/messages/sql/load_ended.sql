-- Return what the hooks of an ended message get besides its outcome.
select recipient, reference, reason from onceward.messages where id = $1
