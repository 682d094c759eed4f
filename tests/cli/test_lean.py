"""A process starts with less work, and behaves like one that starts with all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.child import ROOT

LEAN = """
import json
from onceward.cli.lean import hide_unneeded, import_fastapi
hide_unneeded()
import_fastapi()
"""
PLAIN = "import json\n"
DOCUMENT = """
from fastapi import FastAPI
from pydantic import BaseModel
class Order(BaseModel):
    amount: int
api = FastAPI()
@api.post("/orders/{id}")
def place(id: int, order: Order) -> list[Order]: ...
print(json.dumps([api.openapi(), Order(amount=1).model_dump(), BaseModel.model_config]))
"""
OLD_MODEL = """
from pydantic.v1 import BaseModel
from fastapi import FastAPI
class Old(BaseModel):
    amount: int
try:
    @FastAPI().post("/orders")
    def place(order: Old): ...
except Exception as error:
    print(json.dumps(type(error).__name__))
"""
COLLECTOR = """
import gc, json
from onceward.cli.lean import pause_collector
from onceward.cli.session import spare_collector
pause_collector()
paused = gc.isenabled()
spare_collector()
print(json.dumps([paused, gc.isenabled()]))
"""


def printed(code: str) -> Any:
    """Run code in a process of its own and return what it printed."""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_an_openapi_document_is_the_same_when_the_models_of_fastapi_are_built_at_their_first_use() -> None:
    assert printed(LEAN + DOCUMENT) == printed(PLAIN + DOCUMENT)


def test_fastapi_still_refuses_a_model_of_pydantic_v1() -> None:
    assert printed(LEAN + OLD_MODEL) == printed(PLAIN + OLD_MODEL) == "PydanticV1NotSupportedError"


def test_the_garbage_collector_runs_again_when_the_process_is_up() -> None:
    assert printed(COLLECTOR) == [False, True]
