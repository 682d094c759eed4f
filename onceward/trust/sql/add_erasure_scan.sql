-- Note a scan for a person in an organization by these erasers, which begins at one of them, and return its id.
insert into onceward.erasure_scans
    (organization_id, people, actor, user_id, reason, erasers, eraser, last, examined, found, also_known_as)
values ($organization, $people, $actor, $user_id, $reason, $erasers, $eraser, $last, $examined, $found, $also_known_as)
returning id
