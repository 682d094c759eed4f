"""Brevo's error codes, by what they mean. Source: the model `ErrorModel` of Brevo's API reference."""

from onceward.services.error_table import ErrorTable

_KEY = "Create an API key in Brevo (SMTP & API) and set it as api_key; check the list of authorised addresses there."

ERRORS = ErrorTable(
    account={
        "unauthorized": _KEY,
        "permission_denied": _KEY,
        "reseller_permission_denied": _KEY,
        "not_enough_credits": "Buy credits in Brevo, or wait until the plan renews them.",
        "account_under_validation": "Brevo is examining the account: complete its profile, or ask Brevo's support.",
    },
    recipient=frozenset({"blocked_contact"}),
    message=frozenset({"missing_parameter", "out_of_range", "not_acceptable", "unprocessable_entity", "bad_request"}),
    throttled={"too_many_requests": None},
)
