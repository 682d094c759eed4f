"""What the HTTP face counts."""

from onceward.telemetry.metrics import counter, histogram

REQUESTS = counter(
    "onceward_http_requests_total", "API requests by route and class of status.", ["method", "route", "status"]
)
REQUEST_SECONDS = histogram("onceward_http_request_seconds", "Time to answer an API request.", ["method", "route"])
