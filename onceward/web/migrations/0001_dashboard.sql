-- Keep the dashboard fast, however long the history is: summarise new pages of the index as they fill, so that a query for the
-- last minute does not read everything since the last vacuum.
alter index onceward.attempts_finished set (autosummarize = on);
