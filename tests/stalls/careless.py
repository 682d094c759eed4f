"""A job whose effect is not part of its transaction: the twin that a stall must find out."""

from __future__ import annotations

from onceward import Engine, Onceward, Tx
from onceward.testing import app_scenario
from tests.stalls.tables import everything, reset

app = Onceward("careless")


@app.job
async def careless(tx: Tx) -> None:
    await tx.execute("select 1")
    async with tx.engine.transaction() as another:
        await another.execute("insert into effects (what) values ('careless')")


async def arrange(engine: Engine) -> None:
    await engine.enqueue(careless)


scenario = app_scenario(app, arrange=arrange, observe=everything, reset=reset)
