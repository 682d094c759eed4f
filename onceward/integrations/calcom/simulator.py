"""A simulator of Cal.com v2: create, list, reschedule and cancel bookings, meetings and no-shows, with signed
webhooks."""

import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer, part, parts, read_object
from onceward.testing.simulators.webhooks import WebhookSender

Json = dict[str, Any]


class CalComSimulator(Simulator):
    """One user whose calendar is always free. Every booking lasts 30 minutes."""

    kept = ("bookings",)

    def __init__(self) -> None:
        super().__init__()
        self.bookings: dict[str, Json] = {}
        self.webhooks = WebhookSender()
        self.webhook_secret = ""
        self._webhook_url: str | None = None
        self.needs_confirmation: set[int] = set()
        """Event types whose bookings wait for `confirm`; Cal.com then sends BOOKING_REQUESTED first."""

    def send_webhooks_to(self, url: str, *, secret: str) -> None:
        self._webhook_url = url
        self.webhook_secret = secret

    async def stop(self) -> None:
        await self.webhooks.aclose()
        await super().stop()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v2/me", self._profile),
            web.post("/v2/bookings", self._create),
            web.get("/v2/bookings", self._list),
            web.get("/v2/bookings/{uid}", self._get),
            web.post("/v2/bookings/{uid}/cancel", self._cancel),
            web.post("/v2/bookings/{uid}/reschedule", self._reschedule),
            web.post("/v2/bookings/{uid}/confirm", self._confirm),
            web.post("/v2/bookings/{uid}/decline", self._decline),
            web.post("/v2/bookings/{uid}/mark-absent", self._mark_absent),
        ]

    def failure(self, status: int) -> web.Response:
        return _error("Simulated failure", status)

    async def _profile(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization", "").endswith("_invalid"):
            return _error("Invalid API Key", 401)
        return _success({"id": 1, "username": "simulated", "timeZone": "Europe/London"})

    async def _create(self, request: web.Request) -> web.Response:
        body = await read_object(request)
        attendee = part(body, "attendee")
        if not body.get("start") or not body.get("eventTypeId") or not attendee.get("email"):
            return _error("start, eventTypeId and attendee are required", 400)
        booking = self._book(body["start"], body)
        if booking["eventTypeId"] in self.needs_confirmation:
            booking["status"] = "pending"
            self._emit("BOOKING_REQUESTED", booking)
        else:
            self._emit("BOOKING_CREATED", booking)
        return _success(booking, status=201)

    async def _list(self, request: web.Request) -> web.Response:
        email, kind = request.query.get("attendeeEmail"), request.query.get("eventTypeId")
        matching = [
            booking
            for booking in self.bookings.values()
            if email in (None, booking["attendees"][0]["email"]) and kind in (None, str(booking["eventTypeId"]))
        ]
        return _success(matching)

    async def _get(self, request: web.Request) -> web.Response:
        booking = self.bookings.get(request.match_info["uid"])
        return _error("Booking not found", 404) if booking is None else _success(booking)

    async def _cancel(self, request: web.Request) -> web.Response:
        booking = self.bookings.get(request.match_info["uid"])
        if booking is None:
            return _error("Booking not found", 404)
        if booking["status"] == "cancelled":
            return _error("Booking is already cancelled", 400)
        booking.update(status="cancelled", cancellationReason=(await read_object(request)).get("cancellationReason"))
        self._emit("BOOKING_CANCELLED", booking)
        return _success(booking)

    async def _reschedule(self, request: web.Request) -> web.Response:
        old = self.bookings.get(request.match_info["uid"])
        if old is None or old["status"] == "cancelled":
            return _error("Booking not found", 404)
        body = await read_object(request)
        new = self._book(
            str(body["start"]),
            {"eventTypeId": old["eventTypeId"], "attendee": old["attendees"][0], "metadata": old["metadata"]},
        )
        new["rescheduledFromUid"] = old["uid"]
        old.update(status="cancelled", rescheduledToUid=new["uid"])
        self._emit(
            "BOOKING_RESCHEDULED",
            new,
            rescheduleUid=old["uid"],
            rescheduleStartTime=old["start"],
            rescheduleEndTime=old["end"],
        )
        return _success(new, status=201)

    async def _confirm(self, request: web.Request) -> web.Response:
        return self._set(request, "BOOKING_CREATED", status="accepted")

    async def _decline(self, request: web.Request) -> web.Response:
        return self._set(request, "BOOKING_REJECTED", status="rejected")

    async def _mark_absent(self, request: web.Request) -> web.Response:
        booking = self.bookings.get(request.match_info["uid"])
        if booking is None:
            return _error("Booking not found", 404)
        body = await read_object(request)
        booking["absentHost"] = bool(body.get("host"))
        absent = {str(each.get("email")): bool(each.get("absent")) for each in parts(body, "attendees")}
        self.report_no_show(booking["uid"], absent)
        return _success(booking)

    def _set(self, request: web.Request, trigger: str, **values: Any) -> web.Response:
        booking = self.bookings.get(request.match_info["uid"])
        if booking is None:
            return _error("Booking not found", 404)
        booking.update(values)
        self._emit(trigger, booking)
        return _success(booking)

    # -- what happens without a call of ours -----------------------------------------------------------------------

    def book(self, *, event_type_id: int, start: datetime, name: str, email: str, **metadata: str) -> Json:
        """Let a person book on the booking page."""
        attendee = {"name": name, "email": email, "timeZone": "UTC", "language": "en"}
        booking = self._book(_iso(start), {"eventTypeId": event_type_id, "attendee": attendee, "metadata": metadata})
        self._emit("BOOKING_CREATED", booking)
        return booking

    def end_meeting(self, uid: str, *, flat: bool = True) -> None:
        """Send MEETING_ENDED, as Cal.com does at the planned end: without an envelope (`flat`), or with one."""
        booking = self.bookings[uid]
        if not flat:
            self._emit("MEETING_ENDED", booking)
            return
        row = {
            "uid": uid,
            "id": booking["id"],
            "eventTypeId": booking["eventTypeId"],
            "startTime": booking["start"],
            "endTime": booking["end"],
            "createdAt": booking["createdAt"],
            "status": booking["status"].upper(),
            "attendees": booking["attendees"],
            "metadata": booking["metadata"],
        }
        self._post({"triggerEvent": "MEETING_ENDED", **row})

    def report_no_show(self, uid: str, absent: dict[str, bool]) -> None:
        """Record by address who did not come, and send BOOKING_NO_SHOW_UPDATED."""
        booking = self.bookings[uid]
        for attendee in booking["attendees"]:
            attendee["absent"] = absent.get(attendee["email"], attendee.get("absent", False))
        payload = {
            "message": "Attendees were marked",
            "bookingUid": uid,
            "bookingId": booking["id"],
            "attendees": [{"email": email, "noShow": value} for email, value in absent.items()],
        }
        now = _iso(datetime.now(UTC))
        self._post({"triggerEvent": "BOOKING_NO_SHOW_UPDATED", "createdAt": now, "payload": payload})

    def _book(self, start: str, body: Json) -> Json:
        begins = datetime.fromisoformat(start).astimezone(UTC)
        uid = secrets.token_urlsafe(12)
        booking: Json = {
            "id": len(self.bookings) + 1,
            "uid": uid,
            "title": "Simulated meeting",
            "status": "accepted",
            "start": _iso(begins),
            "end": _iso(begins + timedelta(minutes=30)),
            "duration": 30,
            "createdAt": _iso(datetime.now(UTC)),
            "eventTypeId": body["eventTypeId"],
            "attendees": [dict(body["attendee"])],
            "metadata": part(body, "metadata"),
        }
        self.bookings[uid] = booking
        return booking

    def _emit(self, trigger: str, booking: Json, **more: Any) -> None:
        payload = {
            "uid": booking["uid"],
            "bookingId": booking["id"],
            "eventTypeId": booking["eventTypeId"],
            "title": booking["title"],
            "startTime": booking["start"],
            "endTime": booking["end"],
            "status": booking["status"].upper(),
            "attendees": booking["attendees"],
            "metadata": booking["metadata"],
            **more,
        }
        self._post({"triggerEvent": trigger, "createdAt": _iso(datetime.now(UTC)), "payload": payload})

    def _post(self, body: Json) -> None:
        if self._webhook_url is not None:
            self.webhooks.send(self._webhook_url, orjson.dumps(body), self._sign)

    def _sign(self, body: bytes) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            "X-Cal-Signature-256": hmac.new(self.webhook_secret.encode(), body, hashlib.sha256).hexdigest(),
            "X-Cal-Webhook-Version": "2021-10-20",
        }


def _success(data: object, *, status: int = 200) -> web.Response:
    return answer({"status": "success", "data": data}, status=status)


def _error(message: str, status: int) -> web.Response:
    return answer({"status": "error", "error": {"code": "Simulated", "message": message}}, status=status)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
