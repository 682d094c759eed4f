"""Which account a call uses: an organization's own one wins over the installation's, and never mixes with it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from uuid import UUID, uuid4

import pytest

from onceward.integration import integrations
from onceward.integrations.twilio import Twilio
from onceward.services import NotSet, Services, callable_services, check_secret_name, service_settings, services
from onceward.settings import Settings, prefix_of

ORG, OTHER = uuid4(), uuid4()


class Store:
    """The secrets of organizations in a dict, with a count of the reads."""

    def __init__(self) -> None:
        self.secrets: dict[UUID, dict[str, str]] = {}
        self.reads = 0

    async def read(self, organization: UUID, names: Sequence[str]) -> Mapping[str, str]:
        self.reads += 1
        return {name: value for name, value in self.secrets.get(organization, {}).items() if name in names}


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def made(store) -> AsyncIterator[Services]:
    made = Services()
    made.configure(
        Settings().using(
            service_settings("openai", api_key="sk-installation", model="small"),
            service_settings(
                "twilio", account_sid="ACinstallation", auth_token="installation-token", **{"from": "+15550100"}
            ),
        )
    )
    made.use_secrets(store)
    yield made
    await made.aclose()


async def test_every_service_of_the_catalog_has_an_accessor_that_builds_its_client(store) -> None:
    made = Services()
    made.configure(Settings())
    made.use_secrets(store)
    store.secrets[ORG] = {name: "x" for declared in callable_services().values() for name in declared.secret_names}
    for name, declared in callable_services().items():
        accessor = getattr(made, name)
        client = await accessor(ORG)
        assert type(client) is integrations().load(name, "client")
        assert await made.is_configured(name, ORG)
        assert not await made.is_configured(name, None)
        with pytest.raises(NotSet, match=f"{prefix_of(name)}{declared.account[0].name.upper()} is not set") as error:
            await accessor(None)
        assert f"onceward secrets set ORG {declared.secret_names[0]}" in str(error.value)
        replacement = object()
        made.use(name, replacement)
        assert await accessor(None) is replacement
    await made.aclose()


async def test_an_organization_without_an_account_uses_the_installations(made) -> None:
    theirs: Twilio = await made.twilio(ORG)
    assert theirs.account_sid == "ACinstallation"
    assert theirs.sender == "+15550100"
    assert theirs is await made.twilio(None)


async def test_an_organizations_account_wins_and_is_not_mixed_with_the_installations(made, store) -> None:
    store.secrets[ORG] = {"twilio.account_sid": "ACown", "twilio.auth_token": "own-token"}
    own = await made.twilio(ORG)
    assert (own.account_sid, own.secret) == ("ACown", "own-token")
    assert own.sender is None, "the installation's number does not belong to the organization's account"
    assert (await made.twilio(OTHER)).account_sid == "ACinstallation"


async def test_half_an_account_is_an_error_that_names_the_missing_secret(made, store) -> None:
    store.secrets[ORG] = {"twilio.account_sid": "ACown"}
    with pytest.raises(NotSet, match=f"onceward secrets set {ORG} twilio.auth_token"):
        await made.twilio(ORG)


async def test_a_shared_field_can_be_set_alone(made, store) -> None:
    store.secrets[ORG] = {"openai.model": "large"}
    assert ((await made.openai(ORG)).api_key, (await made.openai(ORG)).model) == ("sk-installation", "large")
    store.secrets[OTHER] = {"openai.api_key": "sk-own"}
    assert ((await made.openai(OTHER)).api_key, (await made.openai(OTHER)).model) == ("sk-own", "small")


async def test_a_changed_secret_is_used_after_it_is_forgotten_or_after_a_short_time(made, store, monkeypatch) -> None:
    store.secrets[ORG] = {"openai.api_key": "sk-1"}
    first = await made.openai(ORG)
    assert await made.openai(ORG) is first
    assert store.reads == 1
    store.secrets[ORG] = {"openai.api_key": "sk-2"}
    made.forget_secrets(ORG)
    assert (await made.openai(ORG)).api_key == "sk-2"
    store.secrets[ORG] = {"openai.api_key": "sk-3"}
    assert (await made.openai(ORG)).api_key == "sk-2"
    monkeypatch.setattr(services, "SECRETS_TTL_S", 0.0)
    assert (await made.openai(ORG)).api_key == "sk-3"


async def test_no_secret_is_in_a_repr(made, store) -> None:
    store.secrets[ORG] = {"openai.api_key": "sk-very-secret"}
    assert "sk-very-secret" not in repr(await made.openai(ORG))
    assert "sk-very-secret" not in repr(made.__dict__["_clients"])


@pytest.mark.parametrize("name", ["strip.secret_key", "stripe.key", "stripe", "", "stripe.url"])
def test_a_name_that_no_service_has_is_refused(name) -> None:
    with pytest.raises(NotSet, match=r"SERVICE.FIELD|its fields are"):
        check_secret_name(name)
