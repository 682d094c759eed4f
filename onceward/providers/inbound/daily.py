"""Daily.co: HMAC-SHA256 of `timestamp.body`, timestamp in milliseconds, key and signature in base64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from onceward.providers.inbound import signature
from onceward.providers.inbound.payload import as_object, as_text, item, read_object, required_text
from onceward.providers.inbound.provider import Provider, ProviderReply, ReceivedItem, Request, SourceConfig
from onceward.providers.inbound.samples import apply_fields, hex_token, unix_now

SCHEME: Final = signature.Scheme(
    header="x-webhook-signature",
    content="{timestamp}.{body}",
    encoding="base64",
    timestamp="x-webhook-timestamp",
    unit="ms",
)
_PROBE: Final = b'{"test":"test"}'


class Daily(Provider):
    """Daily disables a webhook after a few failures, so every authentic request is acknowledged."""

    name: ClassVar[str] = "daily"
    title: ClassVar[str] = "Daily.co"
    # By default Daily has a circuit breaker instead of retries, so error responses must be rare.
    retries: ClassVar[bool] = False
    sample_types: ClassVar[tuple[str, ...]] = (
        "participant.joined",
        "participant.left",
        "meeting.started",
        "meeting.ended",
        "recording.started",
        "recording.ready-to-download",
        "recording.error",
    )

    def decode_secret(self, secret: str, settings: Any) -> bytes:
        return signature.decode_key("base64", secret)

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        # Daily sends this before the secret is known. Forging it is useless, because it never becomes an event.
        if not _is_probe(request):
            signature.verify(SCHEME, config, request, now)

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        return ProviderReply() if _is_probe(request) else None

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        if _is_probe(request):
            return []
        document = read_object(request.body)
        details = as_object(document.value.get("payload"))
        return [
            item(
                document,
                event_id=required_text(document, "id"),
                type=required_text(document, "type"),
                # Rooms are `room` in some events and `room_name` in others.
                ordering=as_text(details.get("room")) or as_text(details.get("room_name")),
            )
        ]

    def data(self, payload: Any) -> Any:
        return as_object(payload).get("payload", payload)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {"content-type": "application/json", **signature.sign(SCHEME, config.keys[0], body, now)}

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        payload = {
            "version": "1.0.0",
            "type": type,
            "id": hex_token(f"{type.replace('.', '-')}-", 32),
            "payload": _details(type),
            "event_ts": unix_now() + 0.25,
        }
        return apply_fields(payload, fields)


def _is_probe(request: Request) -> bool:
    return len(request.body) <= 32 and b"".join(request.body.split()) == _PROBE


def _details(type: str) -> dict[str, Any]:
    now, room = unix_now(), "consultation-room"
    if type.startswith("participant."):
        person: dict[str, Any] = {
            "joined_at": now - 60.5,
            "session_id": hex_token("", 32),
            "room": room,
            "user_id": hex_token("", 32),
            "user_name": "Ada Example",
            "owner": False,
            "networkQualityState": "good",
        }
        return person | ({"duration": 60.5} if type == "participant.left" else {})
    if type.startswith("meeting."):
        meeting = {"start_ts": now - 1800, "meeting_id": hex_token("", 32), "room": room}
        return meeting | ({"end_ts": now} if type == "meeting.ended" else {})
    if type == "recording.error":
        return {
            "action": "cloud-recording-err",
            "error_msg": "the recording stopped unexpectedly",
            "instance_id": hex_token("", 32),
            "room_name": room,
            "timestamp": now,
        }
    recording: dict[str, Any] = {
        "type": "cloud",
        "recording_id": hex_token("", 32),
        "room_name": room,
        "start_ts": now - 900,
        "status": "in-progress",
    }
    if type == "recording.ready-to-download":
        recording |= {
            "status": "finished",
            "max_participants": 2,
            "duration": 900,
            "s3_key": f"clinic/{room}/{now - 900}",
        }
    return recording
