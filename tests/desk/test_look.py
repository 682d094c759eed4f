"""The desk in a browser, on a desktop and on a phone: nothing breaks, scrolls sideways or reports an error."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.browser import CHROMIUM_ARGUMENTS
from tests.desk.conftest import Library

PATHS = ("", "/books", "/books/do/add", "/books/row/{book}", "/books/do/lend?ids={book}")


@pytest.mark.parametrize("width", [1280, 390])
async def test_pages_fit_and_report_no_error(library: Library, width: int) -> None:
    from axe_core_python.async_playwright import Axe
    from playwright.async_api import async_playwright

    books = [
        await library.add(f"The book number {n}", state=("in", "lent", "lost")[n % 3], price=100 * n) for n in range(8)
    ]
    await library.db.execute(
        "insert into library.loans (organization_id, book_id, reader, lent_at)"
        " select $1, $2::uuid, 'Reader ' || n, now() - n * interval '7 h' from generate_series(1, 40) n",
        library.acme,
        books[0],
    )
    problems: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        for scheme in ("light", "dark"):
            options: Any = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
            context = await browser.new_context(**options)
            page: Any = await context.new_page()
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
            await page.goto(f"{library.url}/login?token={await library.token('otto@acme.example')}")
            await page.get_by_role("button", name="Log in").click()
            await page.wait_for_url(library.url + "/")
            for number, path in enumerate(PATHS):
                await page.goto(f"{library.url}/dashboard/library{path.format(book=books[0])}")
                wider = await page.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                assert wider <= 0, f"{path} scrolls sideways by {wider} px"
                found = await Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]})
                assert not found["violations"], (
                    path,
                    scheme,
                    [(each["id"], each["nodes"]) for each in found["violations"]],
                )
                if folder := os.environ.get("SCREENSHOTS"):
                    await page.screenshot(path=str(Path(folder) / f"{width}-{scheme}-{number}.png"), full_page=True)
        await browser.close()
    assert not problems
