"""A feature that the engine has never heard of, from a folder of its own, is found everywhere."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from onceward import Onceward
from onceward.cli.commands import build
from onceward.db import Database
from onceward.doctor.examination import examine_database
from onceward.feature import Feature, Features, resolve
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings, all_settings
from onceward.telemetry.metrics import DECLARED, REGISTRY
from onceward.trust import verify
from onceward.trust.sessions import admin_link
from onceward.work import trace

FILES = {
    "__init__.py": "",
    "feature.py": """
from pathlib import Path
from onceward.feature import Feature, Part, Traced
from onceward.settings import FeatureSettings

class ParcelSettings(FeatureSettings):
    weight_limit_g: int = 1000

FEATURE = Feature(
    name="parcels", after=("work",), migrations=Path(__file__).parent / "migrations", settings=ParcelSettings,
    parts=(Part("parcel scale", "parcels.parts:scale"),),
    commands=("parcels.commands:register",), routes="parcels.routes:routers", pages="parcels.pages:PAGES",
    checks="parcels.checks:CHECKS", doctor="parcels.checks:DOCTOR", erasers="parcels.erasers:ERASERS", metrics="parcels.metrics",
    traced=(Traced("public.parcels", "parcel", label="r.address", at="r.created_at"),),
    functions=Path(__file__).parent / "functions", alerts=Path(__file__).parent / "alerts.yml",
)
""",
    "migrations/0001_parcels.sql": """
create table public.parcels (id bigint primary key default nextval('onceward.ids'), caused_by bigint, address text,
    created_at timestamptz default now());
create index on public.parcels (caused_by);
grant select on public.parcels to onceward_app;
""",
    "functions/parcel_count.sql": """-- Return how many parcels there are.
create or replace function public.parcel_count() returns bigint language sql stable as 'select count(*) from public.parcels';
""",
    "alerts.yml": """groups:
  - name: parcels
    rules:
      - alert: NothingWeighed
        expr: rate(parcels_weighed_total[1h]) == 0
""",
    "parts.py": """
class Scale:
    running = False
    async def start(self): Scale.running = True
    async def stop(self): Scale.running = False

def scale(context): return Scale()
""",
    "commands.py": '''
def register(cli):
    @cli.command("parcels")
    def parcels() -> None:
        """Weigh parcels."""
''',
    "routes.py": """
from fastapi import APIRouter

def routers(context):
    router = APIRouter(prefix="/api/v1/parcels")
    @router.get("")
    async def parcels() -> list[str]: return ["one"]
    return (router,)
""",
    "pages.py": """
from pathlib import Path
from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.navigation import Section
from onceward.web.dashboard.page import Page

async def load(view): return {"title": "Parcels", "count": await view.conn.fetchval("select count(*) from public.parcels")}

PAGES = Pages(
    pages=(Page(name="parcels", path="/dashboard/parcels", title="Parcels", section="parcels", load=load),),
    sections=(Section("parcels", "Parcels", "/dashboard/parcels", "z", "public.parcels"),),
    templates=(Path(__file__).parent / "pages",),
)
""",
    "pages/parts/parcels.html": "<p>{{ count }} parcels on the belt</p>",
    "checks.py": """
from onceward.doctor.finding import Finding
from onceward.trust import Check

async def every_parcel_has_an_address(conn):
    return [f"parcel {row['id']} has no address" for row in await conn.fetch("select id from public.parcels where address is null")]

async def check_scale(patient): return Finding("scale", "ok", "the scale is level")

CHECKS = (Check("parcels.every_parcel_has_an_address", every_parcel_has_an_address),)
DOCTOR = (check_scale,)
""",
    "erasers.py": "ERASERS = ('asked for by its name',)",
    "metrics.py": """
from onceward.telemetry.metrics import counter
WEIGHED = counter("parcels_weighed_total", "Parcels weighed.")
""",
}


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Features]:
    folder = tmp_path_factory.mktemp("made-up")
    for name, text in FILES.items():
        path = folder / "parcels" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sys.path.insert(0, str(folder))
    feature: Feature = resolve("parcels.feature:FEATURE")
    yield FEATURES.plus([feature])
    sys.path.remove(str(folder))
    # Other tests of this process list all metrics that exist.
    if (metrics := sys.modules.get("parcels.metrics")) is not None:
        REGISTRY.unregister(metrics.WEIGHED)
        DECLARED.pop("parcels_weighed_total")
    for name in [name for name in sys.modules if name.partition(".")[0] == "parcels"]:
        del sys.modules[name]


@pytest.fixture
async def process(features: Features, database_url: str, tmp_path: Path) -> AsyncIterator[Process]:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, port=0, pool_max=8)
    process = Process(Onceward("test"), settings, features)
    await process.start({"web"})
    yield process
    await process.stop()


def test_a_made_up_feature_is_in_help_and_in_settings(features: Features, monkeypatch: pytest.MonkeyPatch) -> None:
    helped = CliRunner().invoke(build(features), ["--help"])
    assert "Weigh parcels." in helped.stdout
    alerts = CliRunner().invoke(build(features), ["alerts"]).stdout
    assert "- alert: NothingWeighed" in alerts
    assert alerts.count("groups:") == 1
    monkeypatch.setenv("ONCEWARD_PARCELS_WEIGHT_LIMIT_G", "250")
    rows = {row.name: row.value for row in all_settings(features.settings, current=Settings())}
    assert rows["ONCEWARD_PARCELS_WEIGHT_LIMIT_G"] == "250"


async def test_a_made_up_feature_is_in_the_api_the_dashboard_and_the_metrics(process: Process) -> None:
    assert process.web is not None
    assert await process.database.fetchval("select public.parcel_count()") == 0
    link = await admin_link(process.database, after_first_login=True)
    assert link is not None
    async with aiohttp.ClientSession(process.web.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        async with http.get("/api/v1/openapi.json") as response:
            assert "/api/v1/parcels" in (await response.json())["paths"]
        async with http.get("/api/v1/parcels") as response:
            assert await response.json() == ["one"]
        async with http.post("/login", data={"token": link.token}) as response:
            assert response.status == 200
        async with http.get("/dashboard/parcels") as response:
            text = await response.text()
            assert "0 parcels on the belt" in text
            assert '<a href="/dashboard/parcels" data-key="z" aria-current="page">Parcels</a>' in text
        async with http.get("/metrics") as response:
            assert "parcels_weighed_total" in await response.text()


async def test_a_part_of_a_made_up_feature_runs_with_the_process(
    features: Features, database_url: str, tmp_path: Path
) -> None:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, pool_max=8)
    process = Process(Onceward("test"), settings, features)
    await process.start({"scheduler"})
    scale = resolve("parcels.parts:Scale")
    assert scale.running
    await process.stop()
    assert not scale.running


async def test_doctor_verify_trace_and_erase_include_a_made_up_feature(
    process: Process, features: Features, db: Database
) -> None:
    url = process.settings.database_url
    assert url is not None
    findings = await examine_database(url.get_secret_value(), process.settings, features)
    assert any(finding.check == "scale" for finding in findings)
    id = await db.fetchval("insert into public.parcels (address) values (null) returning id")
    checks = [check for checks in features.load("checks") for check in checks]
    found = {result.name: result.problems for result in await verify(db, checks) if not result.ok}
    assert found == {"parcels.every_parcel_has_an_address": (f"parcel {id} has no address",)}
    async with db.acquire() as conn:
        assert (await trace(conn, id, features.traced)).node.kind == "parcel"
    assert "asked for by its name" in [eraser for erasers in features.load("erasers") for eraser in erasers]
