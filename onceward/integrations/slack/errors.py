"""Slack's errors, by what they mean.

Sources: the errors of `chat.postMessage` and those of incoming webhooks in Slack's documentation.
"""

from onceward.services.error_table import ErrorTable

_TOKEN = "Install the app in the workspace again and set its bot token as bot_token."
_RIGHTS = "Give the app the scope chat:write (and channels:history), and install it again."
_WEBHOOK = "Create a new incoming webhook for an existing channel, and set its URL."

ERRORS = ErrorTable(
    account={
        "account_inactive": _TOKEN,
        "invalid_auth": _TOKEN,
        "not_authed": _TOKEN,
        "token_expired": _TOKEN,
        "token_revoked": _TOKEN,
        "access_denied": _RIGHTS,
        "enterprise_is_restricted": _RIGHTS,
        "ekm_access_denied": _RIGHTS,
        "missing_scope": _RIGHTS,
        "no_permission": _RIGHTS,
        "not_allowed_token_type": "Set a bot token (xoxb-...), not a token of another kind.",
        "org_login_required": "The workspace is being moved to an organization: wait, or ask its owner.",
        "team_access_not_granted": _RIGHTS,
        "two_factor_setup_required": "The owner of the token must set up a second factor.",
        "message_limit_exceeded": "The workspace has used up its messages: upgrade its plan.",
    },
    recipient=frozenset(
        {
            "channel_not_found",
            "is_archived",
            "not_in_channel",
            "user_not_found",
            "cannot_reply_to_message",
            "restricted_action",
            "restricted_action_read_only_channel",
            "restricted_action_thread_only_channel",
            "messages_tab_disabled",
        }
    ),
    message=frozenset(
        {
            "no_text",
            "msg_too_long",
            "msg_blocks_too_long",
            "too_many_attachments",
            "invalid_blocks",
            "invalid_blocks_format",
            "metadata_too_large",
            "invalid_metadata_format",
        }
    ),
    throttled={"ratelimited": None, "rate_limited": None},
    # request_timeout: the body was missing or truncated, so nothing was posted.
    passing=frozenset({"service_unavailable", "team_added_to_org", "accesslimited", "request_timeout"}),
    unsure=frozenset({"internal_error", "fatal_error"}),
)

WEBHOOK_ERRORS = ErrorTable(
    account={
        "action_prohibited": "An administrator of the workspace forbids the webhook: ask for permission.",
        "channel_is_archived": _WEBHOOK,
        "channel_not_found": _WEBHOOK,
        "invalid_token": _WEBHOOK,
        "no_active_hooks": _WEBHOOK,
        "no_service": _WEBHOOK,
        "no_service_id": _WEBHOOK,
        "no_team": _WEBHOOK,
        "posting_to_general_channel_denied": _WEBHOOK,
        "team_disabled": "The workspace is disabled: ask its owner.",
    },
    message=frozenset({"invalid_payload", "no_text", "too_many_attachments"}),
    recipient=frozenset({"user_not_found"}),
    throttled={"rate_limited": None},
)
"""The URL of a webhook is the account, and its channel is fixed: an archived channel stops every message."""
