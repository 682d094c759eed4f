"""Daily.co: HMAC-SHA256 of `timestamp.body`, timestamp in milliseconds, key and signature in base64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.provider import Provider, ProviderReply, ReceivedItem, Request, SourceConfig
from onceward.webhooks.samples import apply_fields, hex_token, unix_now

_PROBE: Final = b'{"test":"test"}'


class Daily(Provider):
    """Daily disables a webhook after a few failures, so every authentic request is acknowledged."""

    name = "daily"
    title = "Daily.co"
    sample_secret = Provider.sample_secret.removeprefix("whsec_")
    # By default Daily has a circuit breaker instead of retries, so error responses must be rare.
    retries = False
    sample_types = (
        "participant.joined",
        "participant.left",
        "meeting.started",
        "meeting.ended",
        "recording.started",
        "recording.ready-to-download",
        "recording.error",
    )

    verification = Hmac(
        header="x-webhook-signature",
        signed="{timestamp}.{body}",
        encoding="base64",
        timestamp="x-webhook-timestamp",
        timestamp_unit="ms",
        key_encoding="base64",
    )
    # Rooms are `room` in some events and `room_name` in others.
    events = Events(ordering=("payload.room", "payload.room_name"), data="payload", strict=True)

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        # Daily sends this before the secret is known. Forging it is useless, because it never becomes an event.
        if not _is_probe(request):
            super().verify(config, request, now)

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        return ProviderReply() if _is_probe(request) else None

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        return [] if _is_probe(request) else super().parse(config, request)

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
