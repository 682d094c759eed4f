"""Twilio's error codes for text messages, by what they mean.

Source: the "Error and Warning Dictionary", https://www.twilio.com/docs/api/errors, where each code has a page of its
own (https://www.twilio.com/docs/api/errors/21659). Since July 2024 Twilio divides some codes into more exact ones:
https://www.twilio.com/en-us/changelog/updates-to-the-error-code-dictionary-to-clarify-number-validatio
"""

from onceward.services.error_table import ErrorTable

_CREDENTIALS = "Compare account_sid and auth_token with the Twilio Console, and set the current token."
_SUSPENDED = (
    "Open the Twilio Console: the account is suspended or closed (payment or policy). Pay or ask Twilio's support."
)
_SENDER = "Set `from` to a number or messaging service of this account that can send text messages."

SHORT_CODE = frozenset({21606, 21659})
"""With a short code as sender: the recipient is in another country than the short code. The account is right."""

ERRORS = ErrorTable(
    account={
        10001: _SUSPENDED,
        20003: _CREDENTIALS,
        20005: _SUSPENDED,
        20006: _CREDENTIALS,
        20008: "The credentials are Twilio's test credentials: set the live ones.",
        20403: _SUSPENDED,
        21601: _SENDER,
        21603: _SENDER,
        21606: _SENDER,
        21659: _SENDER,
        21660: _SENDER,
        21661: _SENDER,
        21701: _SENDER,
        21702: "Open the messaging service in the Twilio Console: it sends no new messages.",
        21704: "Add a phone number to the messaging service in the Twilio Console.",
        21705: _SENDER,
        30002: _SUSPENDED,
        30034: "Register the number for A2P 10DLC in the Twilio Console.",
        63007: _SENDER,
        63020: "Link the WhatsApp sender to your Meta business in the Twilio Console.",
        90010: _SUSPENDED,
    },
    # 21703: no sender of the messaging service can reach this destination; others can still be reached.
    recipient=frozenset(
        {21211, 21214, 21217, 21265, 21408, 21608, 21612, 21614, 21635, 21703, 30003, 30004, 30005, 30006, 63003, 63024}
    ),
    opted_out=frozenset({21610}),
    message=frozenset({21602, 21605, 21609, 21617, 21618, 21619, 21620, 21623, 30007, 63005, 63013, 63016, 63021}),
    throttled={14107: None, 20429: None, 21611: None, 30001: None, 63017: None, 63018: None},
    passing=frozenset({21730}),
)
