"""An organization chooses the colour and the logo of its public pages."""

from __future__ import annotations

from uuid import uuid4

import aiohttp

from tests.desk.conftest import Library, LogIn

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40
PATH = "/dashboard/look/organizations/do/change_look"


async def test_visitors_see_the_colour_and_the_logo_that_an_owner_chose(library: Library, log_in: LogIn) -> None:
    olga = await log_in("olga@acme.example")
    page = (await olga.get(f"{PATH}?ids={library.acme}")).text
    form = {
        "ids": str(library.acme),
        "step": "run",
        "stamp": page.partition('name="stamp" value="')[2].partition('"')[0],
    }

    refused = await olga.post(PATH, **form, accent="red")
    assert "should match pattern" in refused.text or "such as #2456cf" in refused.text
    refused = await olga.post(PATH, **form, accent="", logo=("logo.svg", b"<svg onload='alert(1)'/>"))
    assert "logo.svg is not a PNG, JPEG or WebP picture" in refused.text
    assert await library.db.fetchval("select bool_and(accent = '' and logo is null) from onceward.organization_looks")

    saved = await olga.post(PATH, **form, accent="#AA3300", logo=("logo.png", PNG))
    assert saved.status == 303, saved.text
    address = f"{library.url}/look/organizations/{library.acme}"
    async with aiohttp.ClientSession() as visitor:
        async with visitor.get(f"{address}.css") as reply:
            style = await reply.text()
        assert "--accent: #aa3300" in style
        assert f"/look/organizations/{library.acme}/logo" in style
        async with visitor.get(f"{address}/logo") as reply:
            assert (await reply.read(), reply.content_type) == (PNG, "image/png")
        async with visitor.get(f"{library.url}/look/organizations/{library.bolt}.css") as reply:
            assert (reply.status, await reply.text()) == (200, "")
        async with visitor.get(f"{library.url}/look/organizations/{uuid4()}/logo") as reply:
            assert reply.status == 404


async def test_one_organization_cannot_change_the_look_of_another(library: Library, log_in: LogIn) -> None:
    olga = await log_in("olga@acme.example")
    assert (await olga.get(f"{PATH}?ids={library.bolt}")).status == 404
    vera = await log_in("vera@acme.example")
    assert (await vera.get(f"{PATH}?ids={library.acme}")).status == 403
