"""How each sender signs, written a second time, without our code. The suite compares both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlencode

from tests.senders.signing import (
    Delivery,
    Sign,
    asymmetric,
    asymmetric_token,
    basic,
    body,
    body_first,
    colon,
    dotted,
    encoded,
    es256,
    every_field_of,
    fields_of,
    hs256,
    joined,
    mac,
    sha256,
    signed_by,
    stamp_and_body,
    stamped,
    standard,
    token,
    unsigned_headers,
    versioned,
    with_field,
)

RECIPES: Mapping[str, Sign] = {
    # -- HMAC of the body
    "asana": body("x-hook-signature"),
    "checkout_com": body("cko-signature"),
    "circleci": body("circleci-signature", prefix="v1="),
    "coinbase_commerce": body("x-cc-webhook-signature"),
    "dropbox": body("x-dropbox-signature"),
    "dub": body("dub-signature"),
    "easypost": body("x-hmac-signature", prefix="hmac-sha256-hex="),
    "gocardless": body("webhook-signature"),
    "launchdarkly": body("x-ld-signature"),
    "lemonsqueezy": body("x-signature"),
    "linear": body("linear-signature"),
    "modern_treasury": body("x-signature"),
    "notion": body("x-notion-signature", prefix="sha256="),
    "pagerduty": body("x-pagerduty-signature", prefix="v1="),
    "razorpay": body("x-razorpay-signature"),
    "sentry": body("sentry-hook-signature"),
    "shopify": body("x-shopify-hmac-sha256", form="base64"),
    "bitbucket": body("x-hub-signature", prefix="sha256="),
    "jira": body("x-hub-signature", prefix="sha256="),
    "meta": body("x-hub-signature-256", prefix="sha256="),
    "websub": body("x-hub-signature", "sha512", prefix="sha512="),
    "terraform": body("x-tfe-notification-signature", "sha512"),
    "terraform_run_tasks": body("x-tfc-task-signature", "sha512"),
    "vault_radar": body("x-hcp-radar-signature", "sha512", prefix="sha512="),
    "paystack": body("x-paystack-signature", "sha512"),
    "mollie": body("x-mollie-signature", prefix="sha256="),
    "adyen_platforms": body("hmacsignature", form="base64", key="hex"),
    "onfido": body("x-sha2-signature"),
    "line": body("x-line-signature", form="base64"),
    "x": body("x-twitter-webhooks-signature", form="base64", prefix="sha256="),
    "viber": body("x-viber-content-signature"),
    "pusher": body("x-pusher-signature"),
    "stream": body("x-signature"),
    "docusign": body("x-docusign-signature-2", form="base64"),
    "typeform": body("typeform-signature", form="base64", prefix="sha256="),
    "xero": body("x-xero-signature", form="base64"),
    "intercom": body("x-hub-signature", "sha1", prefix="sha1="),
    "vercel": body("x-vercel-signature", "sha1"),
    "expo": body("expo-signature", "sha1", prefix="sha1="),
    "patreon": body("x-patreon-signature", "md5"),
    "greenhouse": body("signature", prefix="sha256 "),
    "teams_outgoing": body("authorization", form="base64", prefix="HMAC ", key="base64"),
    "logto": body("logto-signature-sha-256"),
    "savvycal": body("x-savvycal-signature", prefix="sha256="),
    "opnform": body("x-webhook-signature", prefix="sha256="),
    "squarespace": body("squarespace-signature", key="hex"),
    "woocommerce": body("x-wc-webhook-signature", form="base64"),
    # -- Standard Webhooks
    "beehiiv": standard("svix"),
    "bigcommerce": standard(key="text"),
    "brex": standard(),
    "clerk": standard("svix"),
    "dodo_payments": standard(),
    "etsy": standard(),
    "fathom": standard(),
    "higgsfield": standard(),
    "incident_io": standard(),
    "openai_webhooks": standard(),
    "lithic": standard(),
    "polar": standard(key="text"),
    "render": standard(),
    "replicate": standard(),
    "resend": standard("svix"),
    "stytch": standard("svix"),
    "supabase": standard(),
    "threesixtylearning": standard(),
    "vanta": standard("svix"),
    # -- HMAC of a time and the body
    "affirm": stamped(dotted, "s", lambda t, v: {"x-affirm-signature": f"t={t},v0={v}"}, "sha512"),
    "airship": stamped(colon, "s", lambda t, v: {"x-ua-timestamp": t, "x-ua-signature": v}),
    "airwallex": stamped(joined, "ms", lambda t, v: {"x-timestamp": t, "x-signature": v}),
    "box": stamped(
        body_first, "iso", lambda t, v: {"box-delivery-timestamp": t, "box-signature-secondary": v}, form="base64"
    ),
    "buildkite": stamped(dotted, "s", lambda t, v: {"x-buildkite-signature": f"timestamp={t},signature={v}"}),
    "calendly": stamped(dotted, "s", lambda t, v: {"calendly-webhook-signature": f"t={t},v1={v}"}),
    "cashfree": stamped(joined, "ms", lambda t, v: {"x-webhook-timestamp": t, "x-webhook-signature": v}, form="base64"),
    "cloudflare_stream": stamped(dotted, "s", lambda t, v: {"webhook-signature": f"time={t},sig1={v}"}),
    "coinbase_cdp": stamped(dotted, "s", lambda t, v: {"x-hook0-signature": f"t={t},v0={v},h=x-event-id,v1=00"}),
    "customerio": stamped(versioned(b"v0"), "s", lambda t, v: {"x-cio-timestamp": t, "x-cio-signature": v}),
    "elevenlabs": stamped(dotted, "s", lambda t, v: {"elevenlabs-signature": f"t={t},v0={v}"}),
    "fintoc": stamped(dotted, "s", lambda t, v: {"fintoc-signature": f"t={t},v1={v}"}),
    "front": stamped(colon, "ms", lambda t, v: {"x-front-request-timestamp": t, "x-front-signature": v}, form="base64"),
    "grafana": stamped(colon, "s", lambda t, v: {"x-grafana-alerting-timestamp": t, "x-grafana-alerting-signature": v}),
    "hubspot_webhooks": stamped(
        lambda d, stamp: b"POST" + d.url.encode() + d.body + stamp,
        "ms",
        lambda t, v: {"x-hubspot-request-timestamp": t, "x-hubspot-signature-v3": v},
        form="base64",
    ),
    "klaviyo": stamped(body_first, "http_date", lambda t, v: {"klaviyo-timestamp": t, "klaviyo-signature": v}),
    "lob": stamped(dotted, "s", lambda t, v: {"lob-signature-timestamp": t, "lob-signature": v}),
    "moneybird": stamped(dotted, "s", lambda t, v: {"moneybird-signature": f"t={t},v1={v},v1={'0' * 8}"}),
    "mux": stamped(dotted, "s", lambda t, v: {"mux-signature": f"t={t},v1={v}"}),
    "orb": stamped(versioned(b"v1"), "iso", lambda t, v: {"x-orb-timestamp": t, "x-orb-signature": f"v1={v}"}),
    "paddle": stamped(colon, "s", lambda t, v: {"paddle-signature": f"ts={t};h1={v}"}),
    "persona": stamped(dotted, "s", lambda t, v: {"persona-signature": f"t={t},v1={v}"}),
    "ripple_collections": stamped(
        lambda d, stamp: stamp + b"." + hashlib.sha256(d.body).hexdigest().encode(),
        "ms",
        lambda t, v: {"x-webhook-signature": f"t={t},v1={v}", "x-webhook-timestamp": t},
        key="base64",
    ),
    "sanity": stamped(dotted, "ms", lambda t, v: {"sanity-webhook-signature": f"t={t},v1={v}"}, form="base64url"),
    "shippo": stamped(dotted, "s", lambda t, v: {"shippo-auth-signature": f"t={t},v1={v}"}),
    "sinch": stamped(
        lambda d, stamp: d.body + b".nonce-1." + stamp,
        "s",
        lambda t, v: {
            "x-sinch-webhook-signature": v,
            "x-sinch-webhook-signature-nonce": "nonce-1",
            "x-sinch-webhook-signature-timestamp": t,
        },
        form="base64",
    ),
    "statsig": stamped(
        versioned(b"v0"), "s", lambda t, v: {"x-statsig-request-timestamp": t, "x-statsig-signature": f"v0={v}"}
    ),
    "tailscale": stamped(dotted, "s", lambda t, v: {"tailscale-webhook-signature": f"t={t},v1={v}"}),
    "tiktok": stamped(dotted, "s", lambda t, v: {"tiktok-signature": f"t={t},s={v}"}),
    "twitch": stamped(
        lambda d, stamp: d.id.encode() + stamp + d.body,
        "iso",
        lambda t, v: {
            "twitch-eventsub-message-id": "evt_2yTqVbWn8mRk",
            "twitch-eventsub-message-timestamp": t,
            "twitch-eventsub-message-signature": f"sha256={v}",
        },
    ),
    "webflow": stamped(colon, "ms", lambda t, v: {"x-webflow-timestamp": t, "x-webflow-signature": v}),
    "workos": stamped(dotted, "ms", lambda t, v: {"workos-signature": f"t={t}, v1={v}"}),
    "zendesk": stamped(
        joined,
        "iso",
        lambda t, v: {"x-zendesk-webhook-signature-timestamp": t, "x-zendesk-webhook-signature": v},
        form="base64",
    ),
    "zoom": stamped(versioned(b"v0"), "s", lambda t, v: {"x-zm-request-timestamp": t, "x-zm-signature": f"v0={v}"}),
    # -- the URL is signed
    "mandrill": lambda d: {
        "x-mandrill-signature": mac(d.secret.encode(), (d.url + fields_of(d)).encode(), "sha1", "base64")
    },
    "square": lambda d: {
        "x-square-hmacsha256-signature": mac(d.secret.encode(), d.url.encode() + d.body, form="base64")
    },
    "trello": lambda d: {"x-trello-webhook": mac(d.secret.encode(), d.body + d.url.encode(), "sha1", "base64")},
    "plivo": lambda d: {
        "x-plivo-signature-v3-nonce": "nonce-1",
        "x-plivo-signature-v3": "AAAA,"
        + mac(d.secret.encode(), f"{d.url}?{every_field_of(d)}.nonce-1".encode(), form="base64"),
    },
    "plivo_v2": lambda d: {
        "x-plivo-signature-v2-nonce": "nonce-1",
        "x-plivo-signature-v2": mac(d.secret.encode(), f"{d.url}nonce-1".encode(), form="base64"),
    },
    # -- a text of several parts
    "contentful": lambda d: {
        "x-contentful-signed-headers": "x-contentful-signed-headers,x-contentful-timestamp",
        "x-contentful-timestamp": d.ms,
        "x-contentful-signature": mac(
            d.secret.encode(),
            b"POST\n/webhooks/contentful\n"
            b"x-contentful-signed-headers:x-contentful-signed-headers,x-contentful-timestamp;x-contentful-timestamp:"
            + d.ms.encode()
            + b"\n"
            + d.body,
        ),
    },
    "hygraph": lambda d: {
        "gcms-signature": "sign="
        + mac(
            d.secret.encode(),
            json.dumps(
                {"Body": d.body.decode(), "EnvironmentName": "production", "TimeStamp": int(d.ms)},
                separators=(",", ":"),
                ensure_ascii=False,
            ).encode(),
            form="base64",
        )
        + f", env=production, t={d.ms}"
    },
    "mercado_pago": lambda d: {
        "x-request-id": "request-1",
        "x-signature": f"ts={d.ms},v1="
        + mac(
            d.secret.encode(),
            f"id:{json.loads(d.body)['data']['id'].lower()};request-id:request-1;ts:{d.ms};".encode(),
        ),
    },
    # -- public keys
    "discord": asymmetric(stamp_and_body, lambda d, v: {"x-signature-timestamp": d.s, "x-signature-ed25519": v}, "hex"),
    "discord_events": asymmetric(
        stamp_and_body, lambda d, v: {"x-signature-timestamp": d.s, "x-signature-ed25519": v}, "hex"
    ),
    "fal": asymmetric(
        lambda d: f"r1\nu1\n{d.s}\n{hashlib.sha256(d.body).hexdigest()}".encode(),
        lambda d, v: {
            "x-fal-webhook-request-id": "r1",
            "x-fal-webhook-user-id": "u1",
            "x-fal-webhook-timestamp": d.s,
            "x-fal-webhook-signature": v,
        },
        "hex",
    ),
    "highlevel": asymmetric(lambda d: d.body, lambda d, v: {"x-wh-signature": v}),
    "sendgrid": asymmetric(
        stamp_and_body,
        lambda d, v: {
            "x-twilio-email-event-webhook-timestamp": d.s,
            "x-twilio-email-event-webhook-signature": v,
        },
    ),
    "telnyx": asymmetric(
        lambda d: d.s.encode() + b"|" + d.body,
        lambda d, v: {"telnyx-timestamp": d.s, "telnyx-signature-ed25519": v},
    ),
    "travis_ci": lambda d: {"signature": signed_by(d.secret, parse_qsl(d.body.decode())[0][1].encode(), 1, "base64")},
    "turnkey": asymmetric(
        lambda d: f"v1.ed25519.key-1.{d.ms}.{d.id}.".encode() + d.body,
        lambda d, v: {
            "x-turnkey-signature-key-id": "key-1",
            "x-turnkey-timestamp": d.ms,
            "x-turnkey-event-id": d.id,
            "x-turnkey-signature": v,
        },
        "hex",
    ),
    "wise": asymmetric(lambda d: d.body, lambda d, v: {"x-signature-sha256": v}),
    # -- tokens that contain a hash of the body
    "fireblocks": asymmetric_token("fireblocks-webhook-signature", "RS512", lambda d: None),
    "fusionauth": asymmetric_token(
        "x-fusionauth-signature-jwt",
        "RS256",
        lambda d: {"iat": int(d.now), "exp": int(d.now) + 60, "request_body_sha256": sha256(d, "base64")},
    ),
    "livekit": hs256(
        "authorization",
        lambda d: {
            "iss": "APIxZj9kQwErTy",
            "nbf": int(d.now),
            "exp": int(d.now) + 60,
            "sha256": sha256(d, "base64"),
        },
    ),
    "messagebird": hs256(
        "messagebird-signature-jwt",
        lambda d: {
            "iss": "MessageBird",
            "nbf": int(d.now),
            "exp": int(d.now) + 60,
            "payload_hash": sha256(d, "hex"),
            "url_hash": hashlib.sha256(d.url.encode()).hexdigest(),
        },
    ),
    "netlify": hs256(
        "x-webhook-signature", lambda d: {"iss": "netlify", "iat": int(d.now), "sha256": sha256(d, "hex")}
    ),
    "plaid": asymmetric_token(
        "plaid-verification", "ES256", lambda d: {"iat": int(d.now), "request_body_sha256": sha256(d, "hex")}
    ),
    "pubsub": asymmetric_token(
        "authorization",
        "RS256",
        lambda d: {
            "iss": "https://accounts.google.com",
            "aud": "https://hooks.example.com",
            "email": "push@example.iam.gserviceaccount.com",
            "email_verified": True,
            "exp": int(d.now) + 60,
            "iat": int(d.now),
        },
        "Bearer ",
    ),
    "vonage": hs256("authorization", lambda d: {"iat": int(d.now), "payload_hash": sha256(d, "hex")}, "Bearer "),
    # -- no signature
    "chargebee": basic,
    "cloudevents": token("authorization", "Bearer "),
    "cloudflare": token("cf-webhook-auth"),
    "deepgram": token("dg-token"),
    "flutterwave": token("verif-hash"),
    "gitlab": token("x-gitlab-token"),
    "gitlab_signed": standard(),
    "mailjet": basic,
    "okta": token("authorization"),
    "postmark": basic,
    "revenuecat": token("authorization"),
    "sparkpost": basic,
    "telegram": token("x-telegram-bot-api-secret-token"),
    # -- in the body or the query
    "adyen": unsigned_headers,
    "app_store": unsigned_headers,
    "aws_sns": unsigned_headers,
    "braintree": unsigned_headers,
    "event_grid": unsigned_headers,
    "figma": unsigned_headers,
    "lever": unsigned_headers,
    "mailgun": unsigned_headers,
    "msgraph": unsigned_headers,
    "pandadoc": unsigned_headers,
    "signwell": unsigned_headers,
    # -- plain hashes
    "cloudinary": lambda d: {
        "x-cld-timestamp": d.s,
        "x-cld-signature": hashlib.sha1(d.body + d.s.encode() + d.secret.encode()).hexdigest(),
    },
    "recharge": lambda d: {"x-recharge-hmac-sha256": hashlib.sha256(d.secret.encode() + d.body).hexdigest()},
}


def _sns(d: Delivery) -> bytes:
    sent = json.loads(d.body)
    text = "".join(
        f"{name}\n{sent[name]}\n" for name in ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
    )
    return with_field(d, "Signature", signed_by(d.secret, text.encode(), 256, "base64"))


def _adyen(d: Delivery) -> bytes:
    sent = json.loads(d.body)
    item = sent["notificationItems"][0]["NotificationRequestItem"]
    amount = item["amount"]
    parts = (item["pspReference"], "", item["merchantAccountCode"], item["merchantReference"])
    text = ":".join((*parts, str(amount["value"]), amount["currency"], item["eventCode"], item["success"]))
    item["additionalData"]["hmacSignature"] = mac(bytes.fromhex(d.secret), text.encode(), form="base64")
    return json.dumps(sent).encode()


def _mailgun(d: Delivery) -> bytes:
    sent = json.loads(d.body)
    text = f"{d.s}{sent['signature']['token']}"
    sent["signature"] |= {"timestamp": d.s, "signature": mac(d.secret.encode(), text.encode())}
    return json.dumps(sent).encode()


def _signwell(d: Delivery) -> bytes:
    sent = json.loads(d.body)
    sent["event"]["hash"] = mac(d.secret.encode(), f"{sent['event']['type']}@{sent['event']['time']}".encode())
    return json.dumps(sent).encode()


def _lever(d: Delivery) -> bytes:
    sent = json.loads(d.body)
    return with_field(d, "signature", mac(d.secret.encode(), f"{sent['token']}{sent['triggeredAt']}".encode()))


def _msgraph(d: Delivery) -> bytes:
    sent = json.loads(d.body)
    sent["value"][0]["clientState"] = d.secret
    return json.dumps(sent).encode()


def _app_store(d: Delivery) -> bytes:
    payload = json.loads(d.body)["signedPayload"].split(".")[1]
    signed = encoded(b'{"alg":"ES256"}', "base64url") + "." + payload
    return json.dumps({"signedPayload": f"{signed}.{es256(d.secret, signed)}"}).encode()


def _braintree(d: Delivery) -> bytes:
    payload = dict(parse_qsl(d.body.decode()))["bt_payload"]
    made = mac(hashlib.sha1(d.secret.encode()).digest(), payload.encode(), "sha1")
    return urlencode({"bt_signature": f"other|00&pk1|{made}", "bt_payload": payload}).encode()


BODIES: Mapping[str, Callable[[Delivery], bytes]] = {
    "adyen": _adyen,
    "app_store": _app_store,
    "aws_sns": _sns,
    "braintree": _braintree,
    "figma": lambda d: with_field(d, "passcode", d.secret),
    "lever": _lever,
    "mailgun": _mailgun,
    "msgraph": _msgraph,
    "signwell": _signwell,
}
"""The bodies of senders that put their proof there."""
QUERIES: Mapping[str, Callable[[Delivery], str]] = {
    "event_grid": lambda d: f"token={d.secret}",
    "pandadoc": lambda d: f"signature={mac(d.secret.encode(), d.body)}",
}
"""The queries of senders that put their proof there."""
FETCHED_BACK = frozenset({"mollie_classic"})
"""Senders whose requests prove nothing: their events are fetched (test_special_senders.py)."""
