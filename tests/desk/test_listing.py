"""Lists of a desk over HTTP: pages, filters, search, order, counts, files, saved views, roles."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from onceward.desk import Column, Listing, WrongDesk
from onceward.desk.list_request import ask
from onceward.desk.list_rows import Reader, count, in_organization, read, select
from tests.desk.conftest import Library, LogIn
from tests.desk.library import desk

BOOKS = "/dashboard/library/books"


def titles(text: str) -> list[str]:
    return re.findall(r'/row/[0-9a-f-]{36}">([^<]+)</a>', text)


async def test_pages_go_through_all_rows_once_in_either_order(library: Library, log_in: LogIn) -> None:
    await library.db.execute(
        "insert into library.books (organization_id, title, author, added_at)"
        " select $1, 'Book ' || lpad(n::text, 3, '0'), 'A', now() - (n / 2) * interval '1 min'"
        "   from generate_series(1, 120) n",
        library.acme,
    )
    person, text = await log_in("vera@acme.example"), ""
    for order, expected in (("", None), ("title", True), ("-title", False)):
        path, found = f"{BOOKS}?sort={order}", list[str]()
        for _ in range(3):
            text = (await person.get(path)).text
            found += titles(text)
            following = re.search(r'rel="next" href="([^"]+)"', text)
            path = following[1].replace("&amp;", "&") if following else ""
        assert not path
        assert len(found) == len(set(found)) == 120
        if expected is not None:
            assert found == sorted(found, reverse=not expected)
    assert "120 books" in text


async def test_filters_search_and_their_mistakes(library: Library, log_in: LogIn) -> None:
    await library.add("Dune", state="lent")
    await library.add("Emma", author="Jane Austen")
    await library.add("Ulysses", added_at=datetime(2020, 5, 1, tzinfo=UTC))
    person = await log_in("vera@acme.example")
    for query, expected in (
        ("state=lent", {"Dune"}),
        ("q=aust", {"Emma"}),
        ("q=jane+emma", {"Emma"}),
        ("q=%27%3A%2A+%26+%5C", {"Dune", "Emma", "Ulysses"}),
        ("added_at_to=2020-05-01", {"Ulysses"}),
        ("added_at_from=2020-05-02", {"Dune", "Emma"}),
        ("q=nothing-like-it", set()),
    ):
        reply = await person.get(f"{BOOKS}?{query}")
        assert set(titles(reply.text)) == expected, query
    assert "Nothing matches" in reply.text
    wrong = await person.get(f"{BOOKS}?state=burnt&added_at_from=yesterday&added_at_to=9999-12-31")
    assert "State has no value" in wrong.text
    assert "is not a day such as" in wrong.text
    assert len(titles(wrong.text)) == 3
    for cursor in ("x", "W10", "WyJhIiwxXQ", "eyJhIjoxfQ"):
        assert (await person.get(f"{BOOKS}?after={cursor}")).status == 404


async def test_a_list_shows_one_organization_and_an_administrator_all(library: Library, log_in: LogIn) -> None:
    await library.add("Ours")
    theirs = await library.add("Theirs", organization=library.bolt)
    assert titles((await (await log_in("vera@acme.example")).get(BOOKS)).text) == ["Ours"]
    root = await log_in("root@example.org")
    text = (await root.get(BOOKS)).text
    assert set(titles(text)) == {"Ours", "Theirs"}
    assert "Bolt Library" in text
    vera = await log_in("vera@acme.example")
    assert (await vera.get(f"{BOOKS}/row/{theirs}")).status == 404
    assert (await vera.get(f"{BOOKS}/row/not-an-id")).status == 404


async def test_files_have_words_amounts_and_no_formulas(library: Library, log_in: LogIn) -> None:
    await library.add('=HYPERLINK("https://evil.example")', price=1250, state="lent")
    await library.add("Theirs", organization=library.bolt)
    person = await log_in("vera@acme.example")
    head, row = csv.reader(io.StringIO((await person.read(f"{BOOKS}.csv?state=lent")).decode("utf-8-sig")))
    assert head == ["Title", "Author", "Loans", "Price", "Price, currency", "State", "Added (UTC)"]
    assert row[0].startswith("'=HYPERLINK")
    assert row[3:6] == ["12.50", "EUR", "Lent"]
    sheet = openpyxl.load_workbook(io.BytesIO(await person.read(f"{BOOKS}.xlsx"))).active
    assert sheet is not None
    values = [list(each) for each in sheet.iter_rows(values_only=True)]
    assert len(values) == 2
    assert values[1][3] == 12.5
    assert sheet["A2"].data_type == "s", "a text is never a formula"
    outsider = await log_in("nobody@acme.example")
    assert [(await outsider.get(f"{BOOKS}{end}")).status for end in ("", ".csv", ".xlsx")] == [403] * 3


async def test_views_are_saved_for_the_staff_of_the_organization(library: Library, log_in: LogIn) -> None:
    await library.add("Dune", state="lent")
    otto = await log_in("otto@acme.example")
    assert (
        await otto.post("/dashboard/desk/views", listing="library.books", name="Out", query="state=lent&after=zzz")
    ).status == 303
    text = (await (await log_in("vera@acme.example")).get(BOOKS)).text
    assert f'href="{BOOKS}?state=lent" translate="no">Out</a>' in text
    assert ">Out</a>" not in (await (await log_in("bert@bolt.example")).get(BOOKS)).text
    await otto.post("/dashboard/desk/views/remove", listing="library.books", name="Out")
    assert ">Out</a>" not in (await otto.get(BOOKS)).text


async def test_a_role_of_the_desk_opens_what_it_names_and_nothing_else(library: Library, log_in: LogIn) -> None:
    book = await library.add("Dune")
    lena = await log_in("lena@acme.example")
    assert (await lena.get("/")).headers["Location"] == "/dashboard/library", "where else could she go?"
    assert (await lena.get(BOOKS)).status == 200
    assert (await lena.get(f"{BOOKS}/row/{book}")).status == 200
    assert (await lena.get(f"{BOOKS}/do/lend?ids={book}")).status == 200
    for path in ("/dashboard/library/loans", f"{BOOKS}/do/edit?ids={book}", f"{BOOKS}/do/add", "/dashboard/events"):
        assert (await lena.get(path)).status == 403, path
    assert (await lena.post(f"{BOOKS}/do/edit", ids=book, step="run", title="x", author="y")).status == 403


async def test_a_count_of_many_rows_ends_at_a_bound_and_tells_nothing_of_others(
    library: Library, log_in: LogIn
) -> None:
    await library.db.execute(
        "insert into library.books (organization_id, title, author) select $1, 'x', 'y' from generate_series(1, 30000)",
        library.acme,
    )
    await library.db.execute("set role none; analyze library.books")
    assert "more than 10,000 books" in (await (await log_in("vera@acme.example")).get(BOOKS)).text
    others = (await (await log_in("bert@bolt.example")).get(BOOKS)).text
    assert "more than" not in others
    assert re.search(r"\babout \d", others) is None


async def test_an_empty_list_says_what_to_do(library: Library, log_in: LogIn) -> None:
    text = (await (await log_in("otto@acme.example")).get(BOOKS)).text
    assert "Add the first book with the button above." in text
    assert ">Add a book</a>" in text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Column("a b", "x"), "must be an identifier"),
        (lambda: Column("a", "x", kind="money"), "give `currency`"),
        (lambda: Column("a", "x", kind="number", search=True), "only text can be searched"),
        (lambda: Listing(name="a", title="A", noun="a", rows="t r", columns=()), "give columns"),
        (lambda: Listing(name="a", title="A", noun="a", rows="t", columns=(Column("b", "B"),)), "alias r"),
        (
            lambda: Listing(name="a", title="A", noun="a", rows="t r", columns=(Column("b", "B"),), order="-b"),
            "needs sort=True",
        ),
    ],
)
def test_a_wrong_declaration_says_what_to_change(wrong, message: str) -> None:
    with pytest.raises(WrongDesk, match=message):
        wrong()


async def test_days_of_a_filter_are_those_of_the_viewer(library: Library, log_in: LogIn) -> None:
    await library.add("Late", added_at=datetime(2026, 5, 1, 23, 30, tzinfo=UTC))
    person = await log_in("vera@acme.example")
    assert titles((await person.get(f"{BOOKS}?added_at_from=2026-05-02")).text) == []
    assert titles((await person.get(f"{BOOKS}?added_at_from=2026-05-02&zone=Europe/Lisbon")).text) == ["Late"]
    assert titles((await person.get(f"{BOOKS}?added_at=past")).text) == ["Late"]
    assert titles((await person.get(f"{BOOKS}?added_at=today")).text) == []
    assert "is none of today" in (await person.get(f"{BOOKS}?added_at=soon")).text


async def test_the_search_and_the_tab_of_a_row_use_an_index(library: Library) -> None:
    listing, loans = desk.listings["books"], desk.listings["loans"]
    await library.db.execute(
        "insert into library.books (organization_id, title, author) select $1, 'b' || n, 'y' from generate_series(1, 3000) n",
        library.acme,
    )
    await library.db.execute("set role none; analyze library.books")
    async with library.db.transaction(role="engine") as tx:
        await tx.execute("set local enable_seqscan = off; set local enable_indexscan = off")
        asked = in_organization(listing, ask(listing, {"q": "dune"}), library.acme)
        statement, arguments = select(listing, asked)
        assert "books_to_tsvector_idx" in await plan(tx, statement, arguments)
        statement, arguments = select(loans, ask(loans, {"books": str(library.acme)}, parents=desk.parents_of(loans)))
        assert "loans_book_id_idx" in await plan(tx, statement, arguments)


class Explaining:
    """Reads like a transaction, and keeps the plan of each statement."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx
        self.plans: list[str] = []

    async def fetch(self, statement: str, *arguments: Any) -> Any:
        self.plans.append(await plan(self.tx, statement, list(arguments)))
        return await self.tx.fetch(statement, *arguments)

    async def fetchval(self, statement: str, *arguments: Any) -> Any:
        if not statement.startswith("explain"):
            self.plans.append(await plan(self.tx, statement, list(arguments)))
        return await self.tx.fetchval(statement, *arguments)


async def test_a_list_its_count_and_a_number_read_only_rows_of_the_own_organization(library: Library) -> None:
    for organization, number in ((library.acme, 100), (library.bolt, 5000)):
        await library.db.execute(
            "insert into library.books (organization_id, title, author, state) select $1, 'b', 'y', 'lent'"
            " from generate_series(1, $2) n",
            organization,
            number,
        )
    await library.db.execute("set role none; analyze library.books")
    listing, [lent] = desk.listings["books"], desk.figures
    async with library.db.transaction(organization=library.acme) as tx:
        explaining: Any = Explaining(tx)
        reader = Reader(explaining, library.db, library.acme)
        assert len((await read(reader, listing, ask(listing, {}))).rows) == 50
        assert (await count(reader, listing, ask(listing, {"state": "lent"}))).rows == 100
        assert await explaining.fetchval(lent.sql, library.acme) == 100
    assert len(explaining.plans) == 3
    for each in explaining.plans:
        assert "books_organization_id_added_at_id_idx" in each
        assert "Index Cond: (organization_id = " in each
    async with library.db.transaction(role="engine") as tx:  # an administrator sees all
        assert await tx.fetchval(lent.sql, None) == 5100


async def plan(tx, statement: str, arguments: list) -> str:
    return "\n".join(row[0] for row in await tx.fetch(f"explain {statement}", *arguments))


def test_the_library_is_declared_in_under_120_lines() -> None:
    assert len((Path(__file__).parent / "library.py").read_text().splitlines()) < 120
