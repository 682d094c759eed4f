"""What a visitor of the demo does in a browser, from the start page to the end of each app."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

Visit = Callable[[Any, str, str], Awaitable[None]]
"""Visits with a page, the address of the demo, and a mark that makes names unique."""


async def _link_to(page: Any, url: str, who: str, link: str) -> str:
    """Return the newest such address in the messages to somebody, as the messages of the start page show them."""
    for _ in range(90):
        await page.goto(f"{url}/start/messages")
        box = page.get_by_role("link", name=who)
        if await box.count():
            await box.first.click()
            if found := re.search(link, await page.locator("section").inner_html()):
                return found[0]
        await page.wait_for_timeout(1000)
    raise AssertionError(f"no message to {who} has a link like {link}")


async def _seen_at(page: Any, path: str, place: str, text: str) -> None:
    """Open the page until it shows a text."""
    for _ in range(60):
        await page.goto(path)
        if await page.locator(place).get_by_text(text, exact=True).count():
            return
        await page.wait_for_timeout(1000)
    raise AssertionError(f"{path} does not show {text!r}")


async def _pay(page: Any) -> None:
    await page.get_by_role("button", name=re.compile("^Pay ")).click()


async def _log_in(page: Any, url: str, name: str) -> None:
    await page.goto(f"{url}/start")
    await page.get_by_role("button", name=name).click()
    await page.locator("#main h1").wait_for()


async def _tab(page: Any, name: str) -> None:
    await page.locator(".tabs").get_by_role("link", name=name, exact=True).click()


async def _do(page: Any, title: str, fields: dict[str, str]) -> None:
    """Open an action of the desk, fill its form, read what will happen, and do it."""
    await page.locator(".head").get_by_role("link", name=title, exact=True).click()
    for label, value in fields.items():
        await page.get_by_label(label, exact=False).first.fill(value)
    if fields:
        await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("heading", name="What will happen").wait_for()
    await page.locator(".desk-form").get_by_role("button", name=title, exact=True).click()
    await page.locator(".done-message").wait_for()


async def buy_and_refund(page: Any, url: str, mark: str) -> None:
    """Buy two seats as a customer. Rita finds the order by the name of the buyer, and refunds it."""
    await page.goto(f"{url}/start")
    await page.get_by_role("link", name="Ticketing").click()
    await page.get_by_role("link", name="Open Air Night").first.click()
    seats = page.get_by_role("button", name=", free")
    await seats.first.wait_for()
    while await page.locator("#holds li").count() < 2:  # simulated buyers may be quicker
        await seats.nth(await seats.count() // 2).click()
        await page.wait_for_timeout(1000)
    await page.get_by_label("Email address for the tickets").fill(f"{mark}@visitor.example")
    await page.get_by_label("Name").fill(f"Buyer {mark}")
    await page.get_by_role("button", name="Continue to payment").click()
    await _pay(page)
    await page.get_by_text("Order confirmed").wait_for()
    await _log_in(page, url, "Rita sells tickets")
    await _tab(page, "Orders")
    await page.locator("#q").fill(f"Buyer {mark}")
    await page.locator("#q").press("Enter")
    await (
        page.locator("tr[data-row] .name a", has_text=f"Buyer {mark}")
        .or_(page.locator("tr[data-row]", has_text=mark).locator("a"))
        .first.click()
    )
    await _do(page, "Refund", {"Reason": "Asked on the phone"})
    await _seen_at(page, page.url, ".facts", "Refunded")


async def enrol_and_certify(page: Any, url: str, mark: str) -> None:
    """Enrol in the quick course, sign in with the mail, tick the lessons, answer the survey, open the certificate."""
    email = f"{mark}@visitor.example"
    await page.goto(f"{url}/learn")
    await page.get_by_role("link", name="Spreadsheets in Five Minutes").first.click()
    await page.get_by_label("Email address").fill(email)
    await page.get_by_label("Name").fill(f"Student {mark}")
    await page.get_by_role("button", name="Continue to payment").click()
    await _pay(page)
    await page.get_by_text("What comes next").wait_for()
    await page.goto(f"{url}/learn/sign-in")
    await page.get_by_label("Email address").fill(email)
    await page.get_by_role("button", name="Send the link").click()
    await page.goto(await _link_to(page, url, email, r"http://[^\s\"<]+/learn/sign-in/[\w-]+"))
    await page.get_by_role("button", name="Sign in now").click()
    await page.get_by_role("link", name="Spreadsheets in Five Minutes").first.click()
    home = page.url
    lessons = page.locator("#items input[type=checkbox]:enabled")
    await lessons.nth(2).wait_for()  # the course begins a moment after the first payment
    for done in ("33 %", "67 %", "100 %"):
        await page.locator("#items input[type=checkbox]:enabled:not(:checked)").first.click()
        await page.locator("#completion-text", has_text=done).wait_for()
    await page.get_by_role("link", name="Exit survey").click()
    for field in await page.locator("form input, form textarea").all():
        await field.fill("9" if await field.get_attribute("type") == "number" else "Good")
    await page.get_by_role("button").first.click()
    await page.get_by_text("Thank you").wait_for()
    await page.goto(home)
    await page.locator("#certificate a").first.click(timeout=120_000)
    await page.get_by_text(f"Student {mark}").first.wait_for()


async def generate(page: Any, url: str, mark: str) -> None:
    """Let the simulated model write a course, and watch it until it is complete."""
    await page.goto(f"{url}/start/coursegen")
    await page.get_by_label("Title").first.fill(f"Knots of {mark}")
    await page.get_by_label("What it is about, and for whom").first.fill("Knots for people who sail.")
    await page.get_by_label("Lessons").first.fill("2")
    await page.get_by_role("button", name="Create and generate").click()
    await page.locator("#title", has_text=f"Knots of {mark}").wait_for()
    await page.get_by_text("Completed", exact=True).first.wait_for(timeout=180_000)


async def book(page: Any, url: str, mark: str) -> None:
    """Hana adds a patient and an appointment; the patient pays with the link of the message."""
    await _log_in(page, url, "Hana is at the reception")
    await _tab(page, "Patients")
    await _do(page, "Add a patient", {"Name": f"Patient {mark}", "WhatsApp": "+6591234567"})
    starts = (datetime.now() + timedelta(days=2)).strftime("%Y-%m-%dT10:30")
    await _do(page, "Book an appointment", {"Starts": starts, "Price": "80", "Currency of Price": "SGD"})
    await page.locator("tr[data-row]", has_text="Not confirmed yet").locator("a").first.click()
    appointment = page.url
    await _do(page, "Send a payment link", {})
    await page.goto(await _link_to(page, url, f"Patient {mark}", r"http://[^\s\"<]+/pay/[\w-]+"))
    await _pay(page)
    await _seen_at(page, appointment, ".facts", "Paid")
    await _do(page, "Confirm", {})
    await _seen_at(page, appointment, ".facts", "Confirmed")


async def help_a_user(page: Any, url: str, mark: str) -> None:
    """Nuno opens a user and stops the messages to them."""
    await _log_in(page, url, "Nuno helps users")
    await _tab(page, "Users")
    await page.locator("tr[data-row] .name a").first.click()
    await _do(page, "Stop all messages", {"Reason": f"Asked by {mark}"})
    await page.locator(".timeline").get_by_text(f"Asked by {mark}").first.wait_for()
