"""A made-up app with a desk: a list, a page with a timeline, two forms, actions, a chart and a role."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Onceward, Tx
from onceward.desk import Act, Chart, Column, Desk, DeskFigure, Detail, Listing, LongText, Related, Role
from onceward.money import Money

TABLES = """
create schema library;
grant usage on schema library to onceward_app;
create table library.books (
    id uuid primary key default gen_random_uuid(), organization_id uuid not null,
    title text not null, author text not null,
    about text not null default '', price bigint not null default 0, currency text not null default 'EUR',
    state text not null default 'in', added_at timestamptz not null default now());
create index on library.books (organization_id, added_at, id);
create index on library.books using gin (to_tsvector('simple', coalesce(title, '') || ' ' || coalesce(author, '')));
create table library.loans (
    id uuid primary key default gen_random_uuid(), organization_id uuid not null,
    book_id uuid not null, reader text not null,
    lent_at timestamptz not null default now());
create index on library.loans (book_id);
select onceward.protect('library.books'); select onceward.protect('library.loans');
"""

app = Onceward("library", pages="tests.desk.library:PAGES")
desk = Desk("library", "Library", app, table="library.books", roles=(Role("librarian", "Librarian", "Lends books"),))
STATES = {"in": "On the shelf", "lent": "Lent", "lost": "Lost"}

LOANS = desk.listing(
    Listing(
        name="loans",
        title="Loans",
        noun="loan",
        rows="library.loans r",
        newest_by="lent_at",
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
        newest_by="added_at",
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


async def load_book(tx: Tx, id: str) -> BookForm | None:
    row = await tx.fetchrow("select * from library.books where id = $1", UUID(id))
    if row is None:
        return None
    price = Money(row["price"], row["currency"])
    return BookForm(title=row["title"], author=row["author"], price=price, about=row["about"])


@desk.action(BOOKS, "Edit", model=BookForm, load=load_book)
async def edit(tx: Tx, act: Act[BookForm]) -> str:
    await tx.execute(
        "update library.books set title = $2, author = $3 where id = $1",
        UUID(act.id),
        act.given.title,
        act.given.author,
    )
    return "Saved."


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


@desk.action(BOOKS, "Report as lost", on="rows", when="r.state <> 'lost'", reason=True, danger=True)
async def lose(tx: Tx, act: Act[BaseModel]) -> str:
    await tx.execute("update library.books set state = 'lost' where id = $1", UUID(act.id))
    return "The book is reported as lost."


desk.chart(
    Chart(
        name="loans",
        title="Loans",
        sql="select lent_at::date as at, count(*) as value from library.loans where lent_at >= $1 group by 1",
    )
)
desk.figure(
    DeskFigure(
        title="Lent", sql="select count(*) from library.books where state = 'lent'", listing="books", query="state=lent"
    )
)
PAGES = desk.pages
