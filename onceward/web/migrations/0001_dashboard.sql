-- What the dashboard needs to stay fast however much history there is.

-- New pages are summarised as they fill, so that "the last minute" reads the last minute and not the last vacuum.
alter index onceward.attempts_finished set (autosummarize = on);
