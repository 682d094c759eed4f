"""Brevo's error codes, by what they mean.

Source: the values of `code` in the model `ErrorModel` of Brevo's own libraries and API reference,
https://github.com/sendinblue/APIv3-java-library/blob/master/docs/ErrorModel.md and
https://developers.brevo.com/reference/sendtransacemail. `invalid_parameter` is judged by the HTTP status: it may be
about the recipient, the content or the sender. `too_many_requests` comes with status 429, and `blocked_contact` is what
Brevo's support describes; neither is in the model.
"""

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
