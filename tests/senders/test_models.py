"""The models of the largest senders fit their samples, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from onceward import Event, Onceward
from onceward.cli.types import type_declarations
from onceward.integrations.stripe.events import Charge
from onceward.webhooks.models import models_of
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import PROVIDERS
from tests.senders.world import NOW, PUBLIC_URL

LARGEST = [
    "stripe",
    "github",
    "shopify",
    "slack",
    "twilio",
    "paypal",
    "gitlab",
    "sendgrid",
    "hubspot_webhooks",
    "openai_webhooks",
    "whatsapp",
]


def data_of(name: str, type: str) -> Any:
    """Return what a handler gets as `event.data` of a sample."""
    provider = PROVIDERS[name]
    if name == "paypal":  # only PayPal can sign; its body is one event
        return provider.data(provider.sample(type))
    config = SourceConfig(provider=name, secrets=(provider.sample_secret,), public_url=PUBLIC_URL)
    body = provider.encode(provider.sample(type))
    request = provider.request(config, body, NOW, type=type, path=f"/webhooks/{name}")
    [item] = provider.parse(config, request)
    return provider.data(item.payload)


@pytest.mark.parametrize("name", LARGEST)
def test_every_sample_of_a_modelled_type_fits_its_model(name: str) -> None:
    models, samples = models_of(name), set(PROVIDERS[name].samples)
    assert models
    assert set(models) & samples, "no model has a sample"
    for type in set(models) & samples:
        data = data_of(name, type)
        read = models[type].model_validate(data)
        for key, value in read.model_dump(by_alias=True, exclude_unset=True).items():
            assert not isinstance(value, str | int) or str(value) == str(data[key])
        for required, field in models[type].model_fields.items():
            if field.is_required():
                left = {key: value for key, value in data.items() if key != (field.alias or required)}
                with pytest.raises(ValidationError, match=field.alias or required):
                    models[type].model_validate(left)


def test_types_contain_the_webhooks_that_an_app_handles() -> None:
    app = Onceward("shop")

    @app.on("stripe", "charge.succeeded")
    async def paid(event: Event[Charge]) -> None: ...  # pyright: ignore[reportUnusedFunction]

    @app.on("github", "push")
    async def pushed(event: Event[Any]) -> None: ...  # pyright: ignore[reportUnusedFunction]

    @app.on("circleci", "job-completed")
    async def built(event: Event[Any]) -> None: ...  # pyright: ignore[reportUnusedFunction]

    text = type_declarations(app)
    webhooks = text.partition("export interface Webhooks {")[2].partition("\n}")[0]
    assert '"stripe/charge.succeeded": { "id": string; "amount": number;' in webhooks
    assert '"github/push": { "ref": string;' in webhooks
    assert '"circleci/job-completed": unknown;' in webhooks
