"""The metrics of the HTTP server."""

from onceward.telemetry.metrics import counter, gauge, histogram

REQUESTS = counter(
    "onceward_http_requests_total", "API requests by route and class of status.", ["method", "route", "status"]
)
REQUEST_SECONDS = histogram("onceward_http_request_seconds", "Time to answer an API request.", ["method", "route"])
CONNECTIONS = gauge("onceward_http_connections", "Open HTTP and WebSocket connections of this process.")
LIMITED = counter(
    "onceward_http_limited_total",
    "API requests that were answered 429 because too many requests of the same organization waited for the database.",
)
REFUSED = counter(
    "onceward_http_refused_total",
    "Connections and requests that were refused before anything handled them, by reason (docs/security.md).",
    ["reason"],
)
