-- Note for all erasures that have committed that they are over by this moment. Not the time at which this transaction began:
-- transactions that began since may have read the person. While a test has stopped the clock, it is that time.
update onceward.erasures
   set erased_at = case when onceward.now() = now() then clock_timestamp() else onceward.now() end
 where erased_at = 'infinity'
