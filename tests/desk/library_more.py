"""Further actions of the library: a change that can be undone, an action on many rows, a file, a choice of rows, and a way back."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel

from onceward import Tx
from onceward.desk import Act, Choices, Upload
from onceward.money import Money
from tests.desk.library import BOOKS, BookForm, desk


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


@desk.action(BOOKS, "Report as lost", on="rows", when="r.state <> 'lost'", reason=True, danger=True)
async def lose(tx: Tx, act: Act[BaseModel]) -> str:
    await tx.execute("update library.books set state = 'lost' where id = $1", UUID(act.id))
    return "The book is reported as lost."


class CoverForm(BaseModel):
    cover: Upload


@desk.action(BOOKS, "Set the cover", model=CoverForm)
async def set_cover(tx: Tx, act: Act[CoverForm]) -> str:
    await tx.execute("update library.books set cover = $2 where id = $1", UUID(act.id), act.given.cover.content)
    return f"{act.given.cover.name} is the cover."


OTHERS = "select id::text as value, title as word from library.books where id <> $1::text::uuid order by title"


class CopyForm(BaseModel):
    by: Annotated[str, Choices(OTHERS)]


@desk.action(BOOKS, "Replace", model=CopyForm)
async def replace(tx: Tx, act: Act[CopyForm]) -> str:
    await tx.execute("update library.books set about = $2 where id = $1", UUID(act.id), f"replaced by {act.given.by}")
    return "The book is replaced."


PAGES = desk.pages
