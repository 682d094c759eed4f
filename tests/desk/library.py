"""A made-up app with a desk in under 120 lines: lists, a page with a timeline, a form, actions, a chart and a role."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Onceward, Tx
from onceward.desk import Act, Chart, Column, Desk, DeskFigure, Detail, Listing, LongText, Related, Role
from onceward.money import Money

app = Onceward("library", pages="tests.desk.library_more:PAGES")
desk = Desk("library", "Library", app, table="library.books", roles=(Role("librarian", "Librarian", "Lends books"),))
STATES = {"in": "On the shelf", "lent": "Lent", "lost": "Lost"}

LOANS = desk.listing(
    Listing(
        name="loans",
        title="Loans",
        noun="loan",
        rows="library.loans r",
        order="-lent_at",
        columns=(Column("reader", "Reader"), Column("lent_at", "Lent", kind="time", sort=True)),
        empty="Lend a book, and the loan appears here.",
    )
)
BOOKS = desk.listing(
    Listing(
        name="books",
        title="Books",
        noun="book",
        rows="library.books r",
        order="-added_at",
        roles=("librarian",),
        columns=(
            Column("title", "Title", search=True, sort=True),
            Column("author", "Author", search=True, wide=True),
            Column(
                "loans", "Loans", sql="(select count(*) from library.loans l where l.book_id = r.id)", kind="number"
            ),
            Column("price", "Price", kind="money", currency="r.currency"),
            Column("state", "State", words=STATES, tones={"in": "good", "lost": "bad"}, filter=True),
            Column("added_at", "Added", kind="time", sort=True, filter=True),
        ),
        empty="Add the first book with the button above.",
    ),
    detail=Detail(
        title="r.title",
        facts=(Column("about", "About"),),
        related=(Related(LOANS, by="r.book_id"),),
        words={"library.book.lend": "Lent", "library.book.add": "Added"},
    ),
)


class BookForm(BaseModel):
    title: str = Field(title="Title", max_length=200, description="As printed on the cover.")
    author: str
    price: Money = Money(0, "EUR")
    about: Annotated[str, LongText()] = ""


class LoanForm(BaseModel):
    reader: str = Field(title="Reader", min_length=2)


@app.job
async def remind(*, reader: str) -> None: ...


@desk.action(BOOKS, "Add a book", on="list", model=BookForm)
async def add(tx: Tx, act: Act[BookForm]) -> str:
    given = act.given
    act.id = str(
        await tx.fetchval(
            "insert into library.books (organization_id, title, author, price, currency, about)"
            " values ($1, $2, $3, $4, $5, $6) returning id",
            tx.organization,
            given.title,
            given.author,
            given.price.amount,
            given.price.currency,
            given.about,
        )
    )
    return f"{given.title} was added."


@desk.action(BOOKS, "Lend", model=LoanForm, when="r.state = 'in'", roles=("librarian",), causes=("mail",))
async def lend(tx: Tx, act: Act[LoanForm]) -> str:
    await tx.execute("update library.books set state = 'lent' where id = $1", UUID(act.id))
    await tx.execute(
        "insert into library.loans (organization_id, book_id, reader) values ($1, $2, $3)",
        tx.organization,
        UUID(act.id),
        act.given.reader,
    )
    await tx.enqueue(remind.schedule_in(days=14), reader=act.given.reader)
    return f"Lent to {act.given.reader}."


desk.chart(
    Chart(
        name="loans",
        title="Loans",
        sql="select lent_at::date as at, count(*) as value from library.loans where lent_at >= $1 group by 1",
        roles=("librarian",),
    )
)
desk.figure(
    DeskFigure(
        title="Lent",
        sql="select count(*) from library.books where state = 'lent' and ($1::uuid is null or organization_id = $1)",
        listing="books",
        query="state=lent",
    )
)
