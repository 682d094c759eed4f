"""Check what decides whether mail arrives: SPF, DKIM, DMARC and MX by DNS, and TLS at the relay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from onceward.errors import OncewardError
from onceward.extras import extra
from onceward.messages.dkim import DkimKey

Verdict = Literal["ok", "warn", "fail"]
MAX_SPF_LOOKUPS = 10
TIMEOUT_S = 5.0


class Dns(Protocol):
    """The records of DNS that mail needs. An empty list means that there is no such record. Raises `DnsFailed`."""

    async def txt(self, name: str) -> list[str]: ...

    async def mx(self, name: str) -> list[str]: ...


class DnsFailed(OncewardError):
    """A name server did not answer, so nothing is known."""


@dataclass(frozen=True, slots=True)
class MailFinding:
    """One thing that was checked, and what to do about it."""

    check: str
    name: str
    verdict: Verdict
    detail: str


class SystemDns:
    """DNS as this machine is configured to use it. Needs dnspython, which the extra `mail` installs."""

    def __init__(self) -> None:
        with extra("mail", "`onceward mail check`"):
            import dns.asyncresolver
        self._resolver = dns.asyncresolver.Resolver()
        self._resolver.lifetime = TIMEOUT_S

    async def txt(self, name: str) -> list[str]:
        return [b"".join(each.strings).decode("utf-8", "replace") for each in await self._resolve(name, "TXT")]

    async def mx(self, name: str) -> list[str]:
        found = await self._resolve(name, "MX")
        return [str(each.exchange).rstrip(".") for each in found if str(each.exchange) != "."]

    async def _resolve(self, name: str, type: str) -> list[Any]:
        import dns.exception
        import dns.resolver

        try:
            return list(await self._resolver.resolve(name, type))
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return []
        except dns.exception.DNSException as error:
            raise DnsFailed(f"{type} of {name}: {error.__class__.__name__}") from None


async def check_domain(dns: Dns, domain: str, *, return_domain: str | None, key: DkimKey | None) -> list[MailFinding]:
    """Check the DNS of a sender's domain. `return_domain` is where bounces go, `key` signs its mails, if we have
    one."""
    envelope = return_domain or domain
    checks = (
        ("SPF", envelope, _spf(dns, envelope)),
        ("DKIM", domain if key is None else key.name, _dkim(dns, key)),
        ("DMARC", f"_dmarc.{domain}", _dmarc(dns, domain)),
        ("MX", envelope, _mx(dns, envelope, is_bounces=return_domain is not None)),
    )
    found: list[MailFinding] = []
    for check, name, answer in checks:
        try:
            verdict, detail = await answer
        except DnsFailed as error:
            verdict, detail = "fail", f"DNS did not answer, so nothing is known: {error}"
        found.append(MailFinding(check, name, verdict, detail))
    if return_domain is not None and not is_aligned(return_domain, domain):
        detail = f"bounces go to {return_domain}, so SPF does not count for DMARC of {domain}: DKIM must sign"
        found.append(MailFinding("alignment", domain, "ok" if key is not None else "warn", detail))
    return found


def is_aligned(one: str, other: str) -> bool:
    """Return whether two domains belong together: one is the other, or a part of it."""
    return one == other or one.endswith(f".{other}") or other.endswith(f".{one}")


async def _spf(dns: Dns, domain: str) -> tuple[Verdict, str]:
    records = [each for each in await dns.txt(domain) if each.lower().split(" ")[0] == "v=spf1"]
    if not records:
        return "fail", "there is no SPF record: publish `v=spf1 include:<your relay> -all`, as your relay documents it"
    if len(records) > 1:
        return "fail", f"there are {len(records)} SPF records, which receivers treat as an error: keep one"
    words = records[0].lower().split()[1:]
    looked_up = [each for each in words if each.lstrip("+-~?").split(":")[0].split("=")[0].split("/")[0] in LOOKUPS]
    if len(looked_up) > MAX_SPF_LOOKUPS:
        return "fail", f"it needs {len(looked_up)} DNS lookups, receivers stop after {MAX_SPF_LOOKUPS}"
    if any(each in ("all", "+all", "?all") for each in words):
        return "warn", f"`{records[0]}` allows everybody to send: end it with `-all` or `~all`"
    return "ok", records[0]


LOOKUPS = frozenset({"include", "a", "mx", "ptr", "exists", "redirect"})


async def _dkim(dns: Dns, key: DkimKey | None) -> tuple[Verdict, str]:
    if key is None:
        return "warn", "we do not sign: the relay must, or add a key with `onceward mail domains add`"
    records = await dns.txt(key.name)
    if not records:
        return "fail", f"publish this TXT record: {key.record}"
    if _tag(records[0], "p") != _tag(key.record, "p"):
        return "fail", f"DNS has another key; publish this TXT record: {key.record}"
    return "ok", "DNS has our key: mails are signed"


async def _dmarc(dns: Dns, domain: str) -> tuple[Verdict, str]:
    labels = domain.split(".")
    for start in range(len(labels) - 1):
        name = ".".join(labels[start:])
        records = [each for each in await dns.txt(f"_dmarc.{name}") if each.lower().startswith("v=dmarc1")]
        if not records:
            continue
        policy = _tag(records[0], "p" if start == 0 else "sp") or _tag(records[0], "p")
        if policy in ("quarantine", "reject"):
            return "ok", records[0]
        return "warn", f"`{records[0]}` asks receivers to do nothing about forged mail: p=quarantine or p=reject does"
    return (
        "fail",
        f'large receivers refuse bulk mail without DMARC: publish `v=DMARC1; p=quarantine` at "_dmarc.{domain}"',
    )


async def _mx(dns: Dns, domain: str, *, is_bounces: bool) -> tuple[Verdict, str]:
    hosts = await dns.mx(domain)
    if hosts:
        return "ok", ", ".join(sorted(hosts)[:5])
    what = "bounces cannot come back" if is_bounces else "answers and bounces cannot come back"
    return ("fail" if is_bounces else "warn"), f"the domain takes no mail: {what}"


def _tag(record: str, name: str) -> str:
    for part in record.split(";"):
        key, _, value = part.partition("=")
        if key.strip().lower() == name:
            return "".join(value.split())
    return ""


def worst(findings: Sequence[MailFinding]) -> Verdict:
    """Return the worst verdict of all."""
    verdicts = {each.verdict for each in findings}
    return "fail" if "fail" in verdicts else "warn" if "warn" in verdicts else "ok"
