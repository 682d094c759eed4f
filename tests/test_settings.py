"""Settings: one table, clear refusals, no secret on any screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from onceward import Onceward
from onceward.messages.settings import MessagesSettings
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.services import callable_services, integration_settings, load_integration_settings
from onceward.settings import (
    PREFIX,
    FeatureSettings,
    Settings,
    SettingsError,
    all_settings,
    check_prefixes,
    load_feature_settings,
    load_settings,
    unknown_names,
    warn_of_unknown_names,
)
from onceward.trust.key_sources import configured_source
from onceward.trust.settings import TrustSettings
from onceward.web.settings import WebSettings
from onceward.work.settings import WorkSettings

DECLARED = FEATURES.settings


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("ONCEWARD_")]:
        monkeypatch.delenv(name)


READ_BY_SETTINGS = {"app", "dedupe_days"}
"""Read by the command line's entry, and by the property `keep_keys`."""


def test_nothing_needs_to_be_set() -> None:
    settings = load_settings()
    assert settings.database_url is None
    assert (settings.host, settings.port) == ("127.0.0.1", 8400)


def test_environment_is_read_and_lists_are_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_PORT", "9000")
    monkeypatch.setenv("ONCEWARD_ADMIN_EMAILS", "a@example.com, b@example.com,")
    monkeypatch.setenv("ONCEWARD_SLACK_CHANNELS", '{"CRON_FAILURE": "#ops"}')
    settings = load_settings()
    assert settings.port == 9000
    assert settings.of(MessagesSettings).admin_emails == ("a@example.com", "b@example.com")
    assert load_integration_settings("slack", settings).channels == {"CRON_FAILURE": "#ops"}


def test_option_wins_over_environment_and_none_means_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_PORT", "9000")
    assert load_settings(port=None).port == 9000
    assert load_settings(port=9001).port == 9001


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("ONCEWARD_PORT", "many", "integer"),
        ("ONCEWARD_PORT", "70000", "65535"),
        ("ONCEWARD_LOG_LEVEL", "loud", "'debug'"),
        ("ONCEWARD_PUBLIC_URL", "example.com", "https://"),
        ("ONCEWARD_SLACK_CHANNELS", "{", "not valid JSON"),
        ("ONCEWARD_PGBOUNCER", "perhaps", "boolean"),
    ],
)
def test_bad_value_is_refused_with_name_value_and_reason(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, reason: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings(integration_settings())
    assert f"{name}={value!r}" in str(caught.value)
    assert reason in str(caught.value)


def test_all_bad_values_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_PORT", "many")
    monkeypatch.setenv("ONCEWARD_POOL_MAX", "none")
    monkeypatch.setenv("ONCEWARD_WORKER_CONCURRENCY", "0")
    monkeypatch.setenv("ONCEWARD_OIDC_ISSUER", "https://login.example")
    monkeypatch.setenv("ONCEWARD_PARCELS_PAPER", "perhaps")
    with pytest.raises(SettingsError) as caught:
        load_settings((*DECLARED, ("parcels", ParcelSettings)))
    assert [re.split("[= ]", line)[0] for line in str(caught.value).splitlines()] == [
        "ONCEWARD_POOL_MAX",
        "ONCEWARD_PORT",
        "ONCEWARD_OIDC_ISSUER",
        "ONCEWARD_WORKER_CONCURRENCY",
        "ONCEWARD_PARCELS_PAPER",
    ]


async def test_a_process_refuses_all_bad_values_of_its_features_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_WORKER_CONCURRENCY", "0")
    monkeypatch.setenv("ONCEWARD_PARCELS_PAPER", "perhaps")
    process = Process(Onceward("parcels", settings=ParcelSettings), load_settings(), FEATURES)
    with pytest.raises(SettingsError) as caught:
        await process.start()
    assert len(str(caught.value).splitlines()) == 2


def test_the_settings_of_a_feature_are_read_once_and_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_WORKER_CONCURRENCY", "7")
    settings = load_settings()
    given = settings.using(WorkSettings(worker_concurrency=9))
    assert (settings.of(WorkSettings).worker_concurrency, given.of(WorkSettings).worker_concurrency) == (7, 9)
    assert settings.of(WorkSettings) is settings.of(WorkSettings)
    assert given.model_copy(update={"port": 1}).of(WorkSettings).worker_concurrency == 9
    assert load_settings(DECLARED, worker_concurrency=8).of(WorkSettings).worker_concurrency == 8


def test_a_value_without_its_owner_is_refused() -> None:
    with pytest.raises(TypeError, match="worker_concurrency"):
        load_settings(worker_concurrency=8)
    with pytest.raises(ValidationError, match="worker_concurrency"):
        Settings(worker_concurrency=8)  # pyright: ignore[reportCallIssue]
    with pytest.raises(LookupError, match=r"app.settings\(ParcelSettings\)"):
        load_settings().of(ParcelSettings)


def test_one_variable_has_one_owner() -> None:
    class Twice(FeatureSettings):
        environment_prefix = PREFIX
        queues: str = ""

    check_prefixes(DECLARED)
    with pytest.raises(SettingsError, match="two features declare the setting ONCEWARD_QUEUES"):
        check_prefixes((*DECLARED, ("twice", Twice)))
    with pytest.raises(SettingsError, match="'live' cannot declare settings: ONCEWARD_LIVE_"):
        check_prefixes((*DECLARED, ("live", ParcelSettings)))


def test_a_proxy_is_an_address_or_network_and_everybody_is_trusted_in_development_only() -> None:
    for word in ("proxy.example", "10.0.0.1/16"):
        with pytest.raises(SettingsError, match="addresses or networks"):
            load_settings(trusted_proxies=word)
    for everybody in ("*", "10.0.0.1,0.0.0.0/0", "::/0"):
        load_settings(trusted_proxies=everybody, environment="development")
        for environment in ("production", None):  # None: nobody has said that this is development
            with pytest.raises(SettingsError, match="every client choose the address"):
                load_settings(trusted_proxies=everybody, environment=environment)


def test_a_key_set_comes_over_https_or_from_this_machine() -> None:
    for url in ("http://login.example/keys", "http://localhost.example/keys", "file:///keys"):
        with pytest.raises(SettingsError, match="must start with https"):
            load_settings(DECLARED, jwt_jwks_url=url)
    for url in ("https://login.example/keys", "http://127.0.0.1:9000/keys"):
        assert load_settings(DECLARED, jwt_jwks_url=url).of(WebSettings).jwt_jwks_url == url


def test_wrong_database_url_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", "mysql://root:hunter2@host/db")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert "ONCEWARD_DATABASE_URL" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_secrets_show_in_no_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = [row.name for row in all_settings(DECLARED) if row.secret]
    assert {"ONCEWARD_DATABASE_URL", "ONCEWARD_SECRET_KEY", "ONCEWARD_SMTP_PASSWORD"} <= set(secrets)
    for name in secrets:
        monkeypatch.setenv(name, "postgresql://hunter2")
    settings = load_settings(DECLARED)
    for each in (settings, *(settings.of(model) for _, model in DECLARED)):
        assert "hunter2" not in repr(each) + str(each) + each.model_dump_json()
    assert all("hunter2" not in row.value for row in all_settings(DECLARED, current=settings))


def test_unknown_name_is_warned_about_with_the_likely_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ONCEWARD_DATABSE_URL", "postgresql://hunter2")
    warn_of_unknown_names(())
    assert "did you mean ONCEWARD_DATABASE_URL?" in caplog.text
    assert "hunter2" not in caplog.text


def test_every_setting_is_read_somewhere() -> None:
    root = Path(__file__).parents[1]
    code = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("onceward", "apps")
        for path in (root / folder).rglob("*.py")
        if path.name != "settings.py" and path.parent.name != "settings"
    )
    fields_of = {each.name: [field.name for field in each.account] for each in callable_services().values()}
    accounts = {name for fields in fields_of.values() for name in fields}
    accounts |= {f"{service}_{name}" for service, fields in fields_of.items() for name in fields}
    read = READ_BY_SETTINGS | accounts | {f"{name}_url" for name in callable_services()}
    fields = [name for model in (Settings, *(model for _, model in DECLARED)) for name in model.model_fields]
    unread = [name for name in fields if f".{name}" not in code and name not in read]
    assert unread == [], "delete these settings, or use them"


def test_names_of_sources_and_tests_are_not_unknown() -> None:
    assert (
        unknown_names({"ONCEWARD_SOURCE_STRIPE_SECRET": "x", "ONCEWARD_TEST_SERVER": "y", "PATH": "z"}, DECLARED) == []
    )


def test_every_setting_says_what_it_is() -> None:
    assert [row.name for row in all_settings(DECLARED) if not row.description] == []


def test_first_secret_key_is_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_SECRET_KEY", "new, old")
    source = configured_source(load_settings().of(TrustSettings))
    assert source is not None
    assert source.keys() == ("new", "old")


# -- settings of apps: other kinds of values -----------------------------------------------------------------------------


class ParcelSettings(FeatureSettings):
    weights: tuple[int, ...] = ()
    prices: dict[str, int] | None = None
    paper: bool = False


def test_lists_and_mappings_are_json_and_letter_case_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_PARCELS_WEIGHTS", "[1, 2]")
    monkeypatch.setenv("onceward_parcels_prices", '{"small": 5}')
    monkeypatch.setenv("ONCEWARD_PARCELS_PAPER", "yes")
    loaded = load_feature_settings("parcels", ParcelSettings)
    assert (loaded.weights, loaded.prices, loaded.paper) == ((1, 2), {"small": 5}, True)


def test_a_list_that_is_not_json_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_PARCELS_WEIGHTS", "1 and 2")
    with pytest.raises(SettingsError, match="ONCEWARD_PARCELS_WEIGHTS='1 and 2'"):
        load_feature_settings("parcels", ParcelSettings)


def test_a_given_value_wins_over_the_environment_and_other_prefixes_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONCEWARD_PORT", "1")
    monkeypatch.setenv("PORT", "2")
    assert (load_settings().port, load_settings(port=3).port, Settings(port=4).port) == (1, 3, 4)
    monkeypatch.setenv("PAPER", "true")
    assert load_feature_settings("parcels", ParcelSettings).paper is False
