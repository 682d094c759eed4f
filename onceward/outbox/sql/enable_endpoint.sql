-- Enable a disabled endpoint. Return no row if it is enabled already.
update onceward.endpoints set active = true, enabled_at = onceward.now(), disabled_at = null,
  disabled_reason = null, warned_at = null, version = nextval('onceward.ids')
  where endpoint_id = $1 and not active returning true
