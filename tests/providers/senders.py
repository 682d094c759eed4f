"""Signatures that senders and their libraries publish, each with the options of a generic source that verify it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

BOX_BODY = (
    b'{"type":"webhook_event","webhook":{"id":"1234567890"},"trigger":"FILE.UPLOADED",'
    b'"source":{"id":"1234567890","type":"file","name":"Test.txt"}}'
)
ORB_BODY = (
    b'{"id": "o4mmewpfNNTnjfZc", "created_at": "2024-03-27T15:42:29+00:00", "type": "resource_event.test", '
    b'"properties": {"message": "A test webhook from Orb. Happy testing!"}}'
)
CLOUDINARY_BODY = b'{"public_id":"b8sjhoslj8cq8ovoa0ma","version":"1555337587","width":1000,"height":800}'
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
    b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
TWILIO_FORM = b"CallSid=CA1234567890ABCDE&Digits=1234&From=%2B14158675309&To=%2B18005551212&Caller=%2B14158675309"


@dataclass(frozen=True, kw_only=True)
class Vector:
    """A genuine request, and how a generic source is configured to verify it."""

    sender: str
    options: dict[str, Any]
    secret: str
    headers: dict[str, str]
    body: bytes
    now: float = 0
    url: str | None = None
    path: str = "/"
    query: str = ""
    covers_body: bool = True


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def one_header(sender: str, header: str, secret: str, body: bytes, value: str, **options: Any) -> Vector:
    return Vector(
        sender=sender, options={"header": header, **options}, secret=secret, headers={header.lower(): value}, body=body
    )


EVERYBODY = "It's a Secret to Everybody"
ADYEN_KEY = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
DROPBOX_KEY = "324e3b0840f065eb51f3fd63231d0d33daa35d4ed10d27718839e81737065782"

VECTORS = (
    Vector(
        sender="standard webhooks",
        options={"family": "standard"},
        secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        headers={
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        body=b'{"test": 2432232314}',
        now=1614265330,
    ),
    one_header(
        "github",
        "X-Hub-Signature-256",
        EVERYBODY,
        b"Hello, World!",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        prefix="sha256=",
    ),
    one_header(
        "bitbucket",
        "X-Hub-Signature",
        EVERYBODY,
        b"Hello World!",
        "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9",
        prefix="sha256=",
    ),
    one_header(
        "websub",
        "X-Hub-Signature",
        EVERYBODY,
        b"Hello World!",
        "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9",
        algorithm="named",
    ),
    one_header(
        "circleci",
        "circleci-signature",
        "secret",
        b"hello world",
        "v1=734cc62f32841568f45715aeb9f4d7891324e6d948e4c6c60c0621cdac48623a",
        separator=",",
        prefix="v1=",
    ),
    one_header(
        "modern treasury",
        "X-Signature",
        "foo",
        b'{"foo":"bar"}',
        "57e14f6f354543f0101fb06ea24df7731d90087b76651e3497345e22a3622940",
    ),
    one_header(
        "line",
        "X-Line-Signature",
        "channel_secret",
        b"bodybodybodybody",
        "/gg9a+LvFevTH1sd7XCQycD7tsWclCsInj7MhBHxN7k=",
        encoding="base64",
    ),
    one_header(
        "stream",
        "X-Signature",
        "porewqKAFDSAKZssecretsercretfads",
        b"text",
        "d0b770e93a56adc3ee9ac5734533cc0acd71eea8e5e8204a28042ca0f60de1f3",
    ),
    one_header(
        "adyen",
        "HmacSignature",
        ADYEN_KEY,
        b"7914073381342284::TestMerchant:TestPayment-1407325143704:1130:EUR:AUTHORISATION:true",
        "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=",
        encoding="base64",
        key_encoding="hex",
    ),
    one_header(
        "braintree",
        "X-Challenge",
        "integration_private_key",
        b"20f9f8ed05f77439fe955c977e4c8a53",
        "d9b899556c966b3f06945ec21311865d35df3ce4",
        algorithm="sha1",
        key_encoding="sha1",
    ),
    Vector(
        sender="slack",
        options={
            "header": "X-Slack-Signature",
            "signed": "v0:{timestamp}:{body}",
            "prefix": "v0=",
            "timestamp": "X-Slack-Request-Timestamp",
        },
        secret="8f742231b10e8888abcd99yyyzzz85a5",
        headers={
            "x-slack-request-timestamp": "1531420618",
            "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        },
        body=SLACK_BODY,
        now=1531420618,
    ),
    Vector(
        sender="paddle",
        options={
            "header": "Paddle-Signature",
            "signed": "{timestamp}:{body}",
            "separator": ";",
            "prefix": "h1=",
            "timestamp_entry": "ts=",
        },
        secret="pdl_ntf_01hbpjmytsa32fhr36nqgc3kgb_WvRO0eL4Bj9rgYYIBZY6wZhG4EHy9jzh",
        headers={
            "paddle-signature": "ts=1696195954;h1=dummy;"
            "h1=d96299976a6eb066f484d7fde011ac56fc32b38fc9940bc419d6e537fdc6ef02"
        },
        body=b"hello-world",
        now=1696195954,
    ),
    *(
        Vector(
            sender=f"box with {secret}",
            options={
                "header": ["Box-Signature-Primary", "Box-Signature-Secondary"],
                "signed": "{body}{timestamp}",
                "encoding": "base64",
                "timestamp": "Box-Delivery-Timestamp",
                "timestamp_unit": "iso",
            },
            secret=secret,
            headers={
                "box-signature-primary": "6TfeAW3A1PASkgboxxA5yqHNKOwFyMWuEXny/FPD5hI=",
                "box-signature-secondary": "v+1CD1Jdo3muIcbpv5lxxgPglOqMfsNHPV899xWYydo=",
                "box-delivery-timestamp": "2020-01-01T00:00:00-07:00",
            },
            body=BOX_BODY,
            now=seconds("2020-01-01T00:00:00-07:00"),
        )
        for secret in ("SamplePrimaryKey", "SampleSecondaryKey")
    ),
    Vector(
        sender="orb",
        options={
            "header": "X-Orb-Signature",
            "signed": "v1:{timestamp}:{body}",
            "separator": " ",
            "prefix": "v1=",
            "timestamp": "X-Orb-Timestamp",
            "timestamp_unit": "iso",
        },
        secret="c-UGKYdnhHh436B_sMouYAPUvXyWpzOdunZBV5dFSD8",
        headers={
            "x-orb-timestamp": "2024-03-27T15:42:29.551",
            "x-orb-signature": "v1=9d25de966891ab0bc18754faf8d83d0980b44ae330fcc130b41a6cf3daf1f391",
        },
        body=ORB_BODY,
        now=seconds("2024-03-27T15:42:29.551+00:00"),
    ),
    Vector(
        sender="sanity",
        options={
            "header": "sanity-webhook-signature",
            "signed": "{timestamp}.{body}",
            "separator": ",",
            "prefix": "v1=",
            "timestamp_entry": "t=",
            "timestamp_unit": "ms",
            "encoding": "base64url",
        },
        secret="test",
        headers={"sanity-webhook-signature": "t=1633519811129,v1=tLa470fx7qkLLEcMOcEUFuBbRSkGujyskxrNXcoh0N0"},
        body=b'{"_id":"resume"}',
        now=1633519811.129,
    ),
    Vector(
        sender="twilio",
        options={"header": "X-Twilio-Signature", "signed": "{url}{form}", "algorithm": "sha1", "encoding": "base64"},
        secret="12345",
        headers={
            "x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
            "content-type": "application/x-www-form-urlencoded",
        },
        body=TWILIO_FORM,
        url="https://mycompany.com",
        path="/myapp.php",
        query="foo=1&bar=2",
    ),
    Vector(
        sender="square",
        options={"header": "x-square-hmacsha256-signature", "signed": "{url}{body}", "encoding": "base64"},
        secret="asdf1234",
        headers={"x-square-hmacsha256-signature": "2kRE5qRU2tR+tBGlDwMEw2avJ7QM4ikPYD/PJ3bd9Og="},
        body=b'{"hello":"world"}',
        url="https://example.com",
        path="/webhook",
    ),
    Vector(
        sender="plivo",
        options={
            "header": "X-Plivo-Signature-V2",
            "signed": "{url}{header:X-Plivo-Signature-V2-Nonce}",
            "encoding": "base64",
            "body_is_signed": False,
        },
        secret="my_auth_token",
        headers={
            "x-plivo-signature-v2": "ehV3IKhLysWBxC1sy8INm0qGoQYdYsHwuoKjsX7FsXc=",
            "x-plivo-signature-v2-nonce": "12345",
        },
        body=b"{}",
        url="https://answer.url",
        path="",
        covers_body=False,
    ),
    Vector(
        sender="hubspot v2",
        options={"header": "X-HubSpot-Signature", "signed": "{secret}{method}{url}{body}", "keyed": False},
        secret="yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy",
        headers={"x-hubspot-signature": "9569219f8ba981ffa6f6f16aa0f48637d35d728c7e4d93d0d52efaa512af7900"},
        body=b'{"example_field":"example_value"}',
        url="https://www.example.com",
        path="/webhook_uri",
    ),
    Vector(
        sender="dropbox sign",
        options={
            "field": "event.event_hash",
            "signed": "{field:event.event_time}{field:event.event_type}",
            "body_is_signed": False,
        },
        secret=DROPBOX_KEY,
        headers={},
        body=b'{"event":{"event_time":"1348177752","event_type":"unknown_error",'
        b'"event_hash":"c574f5d3090c2936360b4e36cf6835cf3e2206b84fdc6347e6b28ca721ae1371"}}',
        covers_body=False,
    ),
    Vector(
        sender="cloudinary",
        options={
            "header": "X-Cld-Signature",
            "signed": "{body}{timestamp}{secret}",
            "keyed": False,
            "timestamp": "X-Cld-Timestamp",
            "timestamp_unit": "ms",
        },
        secret="hardcoded",
        headers={
            "x-cld-timestamp": "7952342400000",
            "x-cld-signature": "6c5a29fd8815772fbac2f10ae741e093d0859313947ef8fadeb29126ded6649c",
        },
        body=CLOUDINARY_BODY,
        now=7952342400,
    ),
    Vector(
        sender="hook0",
        options={
            "header": "X-Hook0-Signature",
            "signed": "{timestamp}.{body}",
            "separator": ",",
            "prefix": "v0=",
            "timestamp_entry": "t=",
        },
        secret="secret",
        headers={
            "x-hook0-signature": "t=1636936200,v0=1b3d69df55f1e52f05224ba94a5162abeb17ef52cd7f4948c390f810d6a87e98"
        },
        body=b"hello !",
        now=1636936200,
    ),
)
