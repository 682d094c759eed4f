"""Meta's error codes for sends over the WhatsApp Cloud API, by what they mean.

Source: the page "Error codes" of Meta's documentation of the WhatsApp Business Platform, as updated on 2026-05-15:
https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes
"""

from onceward.services.error_table import ErrorTable

_TOKEN = (
    "Create a new token of a system user with the permission whatsapp_business_messaging, and set it as access_token."
)
_PERMISSION = "Give the system user access to the WhatsApp account and the permission whatsapp_business_messaging."
_LOCKED = "Open Account Quality in Meta Business Suite: the account is restricted or locked, and Meta says there why."
_NUMBER = "Check the phone number in WhatsApp Manager, register it again, and compare its id with phone_number_id."

OUTSIDE_WINDOW = 131047
"""The person last wrote more than 24 hours ago: only an approved template may be sent."""

ERRORS = ErrorTable(
    account={
        0: _TOKEN,
        3: _PERMISSION,
        10: _PERMISSION,
        190: _TOKEN,
        **dict.fromkeys(range(200, 300), _PERMISSION),
        33: _NUMBER,
        368: _LOCKED,
        131005: _PERMISSION,
        131031: _LOCKED,
        131037: "Have the display name of the phone number approved in WhatsApp Manager.",
        131042: "Add or repair the payment method of the WhatsApp account in Meta Business Suite.",
        131045: _NUMBER,
        133005: _NUMBER,
        133006: _NUMBER,
        133010: _NUMBER,
        133015: "The phone number was deleted recently: wait five minutes, then register it again.",
        134011: "Accept the terms of WhatsApp payments in WhatsApp Manager.",
    },
    template={
        132001: "Create the template in this language, or wait until Meta has approved it: compare name and language.",
        132015: (
            "Meta paused the template because of low quality: edit it in WhatsApp Manager, or wait until "
            "the pause ends."
        ),
        132016: "Meta disabled the template for good: create a new one and name it in template.toml.",
        132068: "The flow of the template is blocked: repair the flow in WhatsApp Manager.",
    },
    recipient=frozenset({130472, 130497, 131021, 131026, 131030, 131049, 131062}),
    opted_out=frozenset({131050}),
    message=frozenset(
        {100, 131008, 131009, OUTSIDE_WINDOW, 131051, 131052, 131053, 132000, 132005, 132007, 132012, 132018, 135000}
    ),
    throttled={4: None, 80007: None, 130429: 1.0, 131048: 3600.0, 131056: 6.0, 132069: 3600.0, 133016: 3600.0},
    passing=frozenset({2, 131016, 131057, 133004}),
    unsure=frozenset({1, 131000}),
)
