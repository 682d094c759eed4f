"""Actions and forms of a desk: what people see before, what happens, what is refused, and two people at once."""

from __future__ import annotations

import re

from onceward import JobEnd
from onceward.desk import Act, bulk
from onceward.desk.actions import Nothing
from onceward.testing.polling import until
from onceward.trust.identity import Identity
from tests.desk.conftest import Library, LogIn
from tests.desk.library import app, desk

BOOKS = "/dashboard/library/books"


async def test_a_form_adds_a_row_after_it_was_checked(library: Library, log_in: LogIn) -> None:
    otto = await log_in("otto@acme.example")
    assert 'name="price.currency"' in (await otto.get(f"{BOOKS}/do/add")).text
    wrong = await otto.post(
        f"{BOOKS}/do/add", step="run", title="", author="A", price="1.234", **{"price.currency": "EUR"}
    )
    assert wrong.status == 200
    assert "EUR has 2 decimal places" in wrong.text
    assert "Enter a value." in wrong.text
    given = {"title": "Dune", "author": "Herbert", "price": "12.50", "price.currency": "EUR"}
    tried = await otto.post(f"{BOOKS}/do/add", step="try", **given)
    assert "What will happen" in tried.text
    assert "Dune was added." in tried.text
    assert await library.db.fetchval("select count(*) from library.books") == 0, "a trial changes nothing"
    done = await otto.post(f"{BOOKS}/do/add", step="run", **given)
    row = await library.db.fetchrow("select id, price, organization_id from library.books")
    assert done.status == 303
    assert done.headers["Location"] == f"{BOOKS}/row/{row['id']}"
    assert (row["price"], row["organization_id"]) == (1250, library.acme)


async def test_what_follows_is_shown_before_and_the_timeline_says_who_did_it(library: Library, log_in: LogIn) -> None:
    book = await library.add("Dune")
    lena = await log_in("lena@acme.example")
    tried = await lena.post(f"{BOOKS}/do/lend", ids=book, step="try", reader="Rita")
    assert "Lent to Rita." in tried.text
    assert "1 job “remind” will run" in tried.text
    assert f'› <a href="{BOOKS}/row/{book}" translate="no">Dune</a>' in tried.text, "people see what they act on"
    assert await library.db.fetchval("select count(*) from onceward.work where task = 'remind'") == 0
    assert (await lena.post(f"{BOOKS}/do/lend", ids=book, step="run", reader="Rita")).status == 303
    again = await lena.post(f"{BOOKS}/do/lend", ids=book, step="run", reader="Rolf")
    assert "is not possible any more" in again.text
    assert await library.db.fetchval("select string_agg(reader, ',') from library.loans") == "Rita"
    await lena.post("/dashboard/desk/notes", listing="library.books", id=book, body="Cover is <b>torn</b>")
    page = (await lena.get(f"{BOOKS}/row/{book}")).text
    assert "Reader: Rita" in page, "the timeline says what was entered"
    assert "<h2>Loans</h2>" not in page, "a librarian may not see the list of loans, neither here nor as a tab"
    assert "/dashboard/library/loans" not in page
    assert ">Lent</span>" in page
    assert "<h2>Loans</h2>" in (await (await log_in("otto@acme.example")).get(f"{BOOKS}/row/{book}")).text
    assert "Cover is &lt;b&gt;torn&lt;/b&gt;" in page
    seen = (await (await log_in("vera@acme.example")).get(f"{BOOKS}/row/{book}")).text
    assert "lena@acme.example" in seen, "people are named, not numbered"
    assert "/do/lend?" not in page


async def test_two_people_edit_one_row(library: Library, log_in: LogIn) -> None:
    book = await library.add("Dune")
    otto, olga = await log_in("otto@acme.example"), await log_in("olga@acme.example")

    async def opened(person) -> dict[str, str]:
        text = (await person.get(f"{BOOKS}/do/edit?ids={book}")).text
        return dict(re.findall(r'<input type="hidden" name="(ids|stamp|was\.[^"]+)" value="([^"]*)"', text))

    first, second = await opened(otto), await opened(olga)
    given = {"author": "Frank Herbert", "price": "0", "price.currency": "EUR"}
    assert (await otto.post(f"{BOOKS}/do/edit", step="run", title="Dune 1", **given, **first)).status == 303
    refused = await olga.post(f"{BOOKS}/do/edit", step="run", title="Dune 2", **given, **second)
    assert "Title: was Dune, is now Dune 1" in refused.text
    assert 'value="Dune 2"' in refused.text
    stamp = re.search(r'name="stamp" value="([^"]+)"', refused.text)
    assert stamp is not None
    assert (
        await olga.post(f"{BOOKS}/do/edit", step="run", title="Dune 2", ids=book, stamp=stamp[1], **given)
    ).status == 303
    assert await library.db.fetchval("select title from library.books") == "Dune 2"


async def test_an_action_on_many_rows_goes_on_by_itself_and_lists_what_it_refused(
    library: Library, log_in: LogIn
) -> None:
    books = [await library.add(f"Book {n}", state="lost" if n == 7 else "in") for n in range(60)]
    foreign = await library.add("Theirs", organization=library.bolt)
    otto = await log_in("otto@acme.example")
    ids = " ".join([*books, foreign])
    assert "Give a reason" in (await otto.post(f"{BOOKS}/do/lose", ids=ids, step="run")).text
    done = await otto.post(f"{BOOKS}/do/lose", ids=ids, step="run", reason="flood")
    path = done.headers["Location"]

    async def ended() -> bool:
        return await library.db.fetchval("select bool_and(ended_at is not null) from onceward.desk_runs")

    await until(ended)
    text = (await otto.get(path)).text
    assert "59 succeeded, 2 were refused" in text
    assert books[7] in text
    assert ">Book 7</a>" in text
    assert await library.db.fetchval("select count(*) from library.books where state = 'lost'") == 60
    assert await library.db.fetchval("select state from library.books where id = $1::uuid", foreign) == "in"
    assert (
        await library.db.fetchval(
            "select count(*) from onceward.audit_log where action = 'library.book.lose' and reason = 'flood'"
        )
        == 59
    )
    assert (await (await log_in("bert@bolt.example")).get(path)).status == 404


async def test_nobody_acts_on_rows_of_others_or_without_a_token(library: Library, log_in: LogIn) -> None:
    theirs = await library.add("Theirs", organization=library.bolt)
    otto = await log_in("otto@acme.example")
    assert (
        "is not possible any more" in (await otto.post(f"{BOOKS}/do/lend", ids=theirs, step="run", reader="Rita")).text
    )
    assert (await otto.get(f"{BOOKS}/do/edit?ids={theirs}")).status == 404
    assert (await otto.post("/dashboard/desk/notes", listing="library.books", id=theirs, body="x")).status == 404
    assert (await otto.post(f"{BOOKS}/do/lend", ids="", step="run", reader="Rita")).status == 404
    assert (await otto.post(f"{BOOKS}/do/lend", ids=f"{theirs} {library.acme}", step="run", reader="x")).status == 400
    async with otto.http.post(f"{library.url}{BOOKS}/do/lend", data={"ids": theirs}, allow_redirects=False) as reply:
        assert reply.status == 403
    vera = await log_in("vera@acme.example")
    assert (await vera.get(f"{BOOKS}/do/add")).status == 403
    root = await log_in("root@example.org")
    assert (await root.post(f"{BOOKS}/do/lend", ids=theirs, step="run", reader="Rita")).status == 303
    assert await library.db.fetchval("select organization_id from library.loans") == library.bolt
    asked = await root.get(f"{BOOKS}/do/add")
    assert asked.headers["Location"] == "/dashboard/organizations?back=%2Fdashboard%2Flibrary%2Fbooks%2Fdo%2Fadd"
    assert f'name="back" value="{BOOKS}/do/add"' in (await root.get(asked.headers["Location"])).text
    chosen = await root.post("/dashboard/organizations", organization="bolt", back=f"{BOOKS}/do/add")
    assert chosen.headers["Location"] == f"{BOOKS}/do/add"
    assert "Add a book" in (await root.get(f"{BOOKS}/do/add")).text


async def test_people_choose_among_rows_of_their_own_organization(library: Library, log_in: LogIn) -> None:
    book, other = await library.add("Dune"), await library.add("Dune, second edition")
    theirs = await library.add("Theirs", organization=library.bolt)
    otto = await log_in("otto@acme.example")
    form = (await otto.get(f"{BOOKS}/do/replace?ids={book}")).text
    assert re.findall(r'<option value="([^"]*)"[^>]*>([^<]*)', form.partition('id="i-by"')[2]) == [
        ("", "Choose"),
        (str(other), "Dune, second edition"),
    ]
    refused = await otto.post(f"{BOOKS}/do/replace", ids=book, step="run", by=theirs)
    assert "This is not possible any more: choose another one." in refused.text
    assert (await otto.post(f"{BOOKS}/do/replace", ids=book, step="run", by=other)).status == 303
    assert await library.db.fetchval("select about from library.books where id = $1", book) == f"replaced by {other}"
    assert str(other) not in (await otto.get(f"{BOOKS}/row/{book}")).text.partition("Timeline")[2]


async def test_the_home_page_has_numbers_and_a_chart_with_its_table(library: Library, log_in: LogIn) -> None:
    book = await library.add("Dune")
    lena = await log_in("lena@acme.example")
    assert "Nothing yet." in (await lena.get("/dashboard/library")).text
    await lena.post(f"{BOOKS}/do/lend", ids=book, step="run", reader="Rita")
    text = (await lena.get("/dashboard/library")).text
    assert '<svg class="bars"' in text
    assert "As a table" in text
    assert "books?state=lent" in text
    assert not re.search(r"\sstyle=|<style|\son\w+=", text)


async def test_a_change_is_recorded_with_both_values_and_can_be_undone(library: Library, log_in: LogIn) -> None:
    book = await library.add("Dune")
    otto = await log_in("otto@acme.example")
    text = (await otto.get(f"{BOOKS}/do/edit?ids={book}")).text
    opened = dict(re.findall(r'<input type="hidden" name="(ids|stamp|was\.[^"]+)" value="([^"]*)"', text))
    given = {"author": "Ann Author", "price": "0", "price.currency": "EUR"}
    done = await otto.post(f"{BOOKS}/do/edit", step="run", title="Dune 1", **given, **opened)
    assert done.headers["Location"] == f"{BOOKS}/row/{book}?done=edit"
    page = (await otto.get(done.headers["Location"])).text
    assert "Title: Dune → Dune 1" in page
    undo = re.search(r'href="([^"]+)">Undo<', page)
    assert undo is not None
    text = (await otto.get(undo[1].replace("&amp;", "&"))).text
    assert 'name="title" value="Dune"' in text
    opened = dict(re.findall(r'<input type="hidden" name="(ids|stamp|was\.[^"]+)" value="([^"]*)"', text))
    assert (await otto.post(f"{BOOKS}/do/edit", step="run", title="Dune", **given, **opened)).status == 303
    assert await library.db.fetchval("select title from library.books") == "Dune"


async def test_all_rows_that_match_are_counted_again_before_the_action_runs(library: Library, log_in: LogIn) -> None:
    for number in range(60):
        await library.add(
            f"Book {number}", state="lost" if number < 3 else "in", author="Ann" if number < 55 else "Bob"
        )
    await library.add("Book x", author="Ann", organization=library.bolt)
    otto = await log_in("otto@acme.example")
    assert "All 55 books" in (await otto.get(f"{BOOKS}?q=ann")).text
    asked = (await otto.get(f"{BOOKS}/do/lose?all=1&query=q%3Dann")).text
    assert "55 books" in asked
    given = {"all": "1", "query": "q=ann", "reason": "flood"}
    tried = (await otto.post(f"{BOOKS}/do/lose", **given, step="try")).text
    assert "the first of 52 books" in tried
    assert "not possible for 3" in tried
    await library.add("New", author="Ann")
    grown = await otto.post(f"{BOOKS}/do/lose", **given, number="55", step="run")
    assert grown.status == 200, "one row more than the page showed to the person"
    assert "the first of 53 books" in grown.text
    assert (await otto.post(f"{BOOKS}/do/lose", **given, number="56", step="run")).status == 303
    await until(lambda: library.db.fetchval("select bool_and(ended_at is not null) from onceward.desk_runs"))
    assert await library.db.fetchval("select count(*) from library.books where state = 'lost'") == 56
    assert await library.db.fetchval("select state from library.books where title = 'Book x'") == "in"


async def test_a_file_survives_the_page_that_says_what_will_happen(library: Library, log_in: LogIn) -> None:
    book = await library.add("Dune")
    otto = await log_in("otto@acme.example")
    path = f"{BOOKS}/do/set_cover"
    assert 'type="file"' in (await otto.get(f"{path}?ids={book}")).text
    assert "Enter a value." in (await otto.post(path, ids=book, step="run")).text
    tried = await otto.post(path, ids=book, step="try", cover=("dune.png", b"\x89PNG"))
    assert "dune.png is the cover." in tried.text
    kept = dict(re.findall(r'<input type="hidden" name="(cover[^"]*)" value="([^"]*)"', tried.text))
    assert (await otto.post(path, ids=book, step="run", **kept)).status == 303
    assert await library.db.fetchval("select cover from library.books") == b"\x89PNG"
    changes = await library.db.fetchval(
        "select changes from onceward.audit_log where action = 'library.book.set_cover'"
    )
    assert "content" not in str(changes)
    assert "at most" in (await otto.post(path, ids=book, step="try", cover=("big", b"x" * 750_000))).text


async def test_what_the_database_refuses_is_a_sentence_and_stops_no_other_row(library: Library, log_in: LogIn) -> None:
    books = [await library.add(f"Book {n}") for n in range(30)]
    atlas = await library.add("Atlas")
    otto = await log_in("otto@acme.example")
    refused = await otto.post(f"{BOOKS}/do/lose", ids=atlas, step="run", reason="flood")
    assert "A value is not allowed for this book (rule reference_books_stay)." in refused.text
    given = {"title": "Atlas", "author": "Ann Author", "price": "0", "price.currency": "EUR"}
    for step in ("try", "run"):
        twice = await otto.post(f"{BOOKS}/do/add", step=step, **given)
        assert "Another book has the same value, and it may exist only once (rule one_title)." in twice.text
    done = await otto.post(
        f"{BOOKS}/do/lose", ids=" ".join([*books[:3], atlas, *books[3:]]), step="run", reason="flood"
    )
    await until(lambda: library.db.fetchval("select bool_and(ended_at is not null) from onceward.desk_runs"))
    text = (await otto.get(done.headers["Location"])).text
    assert "30 succeeded, 1 were refused" in text
    assert ">Atlas</a>: A value is not allowed for this book" in text


async def test_a_run_stops_when_its_person_may_not_act_any_more_or_its_job_ends(
    library: Library, log_in: LogIn
) -> None:
    book = await library.add("Dune")
    ids = {
        row["email"].partition("@")[0]: str(row["user_id"])
        for row in await library.db.fetch("select email, user_id from onceward.users")
    }
    lose = desk.actions["books", "lose"]

    async def goes_on(name: str) -> bool:
        """Advance a run of this person, and return whether the row was changed."""
        by = Identity("session", library.acme, frozenset(), sub=ids[name], label=ids[name])
        async with library.process.engine.transaction(organization=library.acme) as tx:  # type: ignore[union-attr]
            run = await bulk.start(desk, tx, lose, [book], Act("", Nothing(), by, "flood"))
            assert not await bulk.advance(desk, tx, run)
            stopped: str | None = await tx.fetchval("select stopped from onceward.desk_runs where id = $1", run)
            state = await tx.fetchval(
                "update library.books set state = 'in' returning (select state from library.books)"
            )
            assert (stopped is None) == (state == "lost")
            return stopped is None

    assert {name: await goes_on(name) for name in ("otto", "olga", "root", "vera", "lena", "bert")} == {
        "otto": True, "olga": True, "root": True, "vera": False, "lena": False, "bert": False,
    }  # fmt: skip
    otto = await log_in("otto@acme.example")
    stopped = await library.db.fetchval("select min(id) from onceward.desk_runs where stopped is not null")
    assert (
        "Stopped after 0 of 1 book: the person who started it may"
        in (await otto.get(f"/dashboard/library/runs/{stopped}")).text
    )
    async with library.process.engine.transaction(organization=library.acme) as tx:  # type: ignore[union-attr]
        by = Identity("session", library.acme, frozenset(), sub=ids["otto"], label=ids["otto"])
        run = await bulk.start(desk, tx, lose, [book], Act("", Nothing(), by, "flood"))
        end = JobEnd(
            id=7, task="library.desk_action", arguments={"run": run}, outcome="dead_letter", reason="timeout", error="x",
            attempts=3, result=None, organization=library.acme,
        )  # fmt: skip
        await app.registry.end_hooks["library.desk_action"].run(tx, end)
    assert "job 7 failed (timeout)" in (await otto.get(f"/dashboard/library/runs/{run}")).text
