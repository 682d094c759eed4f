"""Accounts of organizations in a running process: set over HTTP, used at once, seen by nobody else."""

from __future__ import annotations

from pathlib import Path

import aiohttp
from pydantic import SecretStr

from onceward import Onceward
from onceward.db import Database
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.services import service_settings
from onceward.settings import Settings
from onceward.trust import create_organization
from onceward.trust.keys import create_key


async def test_an_account_set_over_http_is_used_at_once_and_only_by_its_organization(
    db: Database, database_url: str, tmp_path: Path
) -> None:
    async with db.transaction(role="engine") as tx:
        a = (await create_organization(tx, "acme", actor="test")).organization_id
        b = (await create_organization(tx, "bolt", actor="test")).organization_id
        key = await create_key(tx, name="k", organization=a, scopes=["owner"], actor="test")
    settings = Settings(
        database_url=SecretStr(database_url),
        data_dir=tmp_path,
        port=0,
    ).using(service_settings("openai", api_key="sk-installation", model="small"))
    app = Onceward("test")
    process = Process(app, settings, FEATURES)
    await process.start({"web"})
    try:
        assert process.web is not None
        assert (await app.services.openai(a)).api_key == "sk-installation"
        headers = {"Authorization": f"Bearer {key.text}"}
        url = f"{process.web.url}/api/v1/secrets"
        async with aiohttp.ClientSession(headers=headers) as http:
            async with http.put(f"{url}/openai.api_key", json={"value": "sk-acme"}) as reply:
                assert reply.status == 204
            assert (await app.services.openai(a)).api_key == "sk-acme"
            assert (await app.services.openai(b)).api_key == "sk-installation"
            async with http.put(f"{url}/openai.url", json={"value": "http://169.254.169.254"}) as reply:
                assert reply.status == 400
            async with http.get(url) as reply:
                listed = await reply.text()
            assert "openai.api_key" in listed
            assert "sk-acme" not in listed
            async with http.delete(f"{url}/openai.api_key") as reply:
                assert reply.status == 204
            async with http.delete(f"{url}/openai.api_key") as reply:
                assert reply.status == 404
        assert (await app.services.openai(a)).api_key == "sk-installation"
    finally:
        await process.stop()
    stored = await db.fetchval("select count(*) from onceward.audit_log where changes::text like '%sk-acme%'")
    assert stored == 0
