"""Any sender whose scheme belongs to a family: the options are the parameters of the family."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Final, Literal, cast, get_type_hints

from pydantic import BaseModel, Field, ValidationError, create_model

from onceward.webhooks.configured import ConfiguredProvider, ReadingOptions
from onceward.webhooks.families import FAMILIES, Verification
from onceward.webhooks.provider import (
    ConfigError,
    describe_faults,
)

Family = Literal["hmac", "standard", "public_key", "jwt", "token", "basic"]
_DEFAULT: Final = "hmac"


class GenericOptions(ReadingOptions):
    """`family` is how the sender proves who it is; the other options are the parameters of the family."""

    family: Family = _DEFAULT

    @cached_property
    def verification(self) -> Verification:
        """The family with its parameters, which are the options that this class does not declare."""
        names = self.model_fields_set - GenericOptions.model_fields.keys()
        return FAMILIES[self.family](**{name: getattr(self, name) for name in names})


@cache
def options_of(family: str) -> type[GenericOptions]:
    """Return the model of the options of one family: a field for each parameter."""
    kind = FAMILIES[family]
    types = get_type_hints(kind)
    parameters: dict[str, Any] = {
        each.name: (types[each.name], Field(default=each.default))
        for each in dataclasses.fields(cast("Any", kind))
        if each.init
    }
    return create_model(f"{kind.__name__}Options", __base__=GenericOptions, **parameters)


class GenericWebhooks(ConfiguredProvider):
    """The options say how requests are verified, where the id and type are, and whether the sender retries."""

    name = "generic"
    title = "generic"
    options_model: type[BaseModel] = options_of(_DEFAULT)

    def read_options(self, options: Mapping[str, Any]) -> GenericOptions:
        family = options.get("family", _DEFAULT)
        if family not in FAMILIES:
            raise ConfigError(f"option family of generic source is {family!r}: use one of {', '.join(FAMILIES)}")
        model = options_of(family)
        lists: dict[str, Any] = {
            name: tuple(cast("list[Any]", value)) if isinstance(value, list) else value
            for name, value in options.items()
        }
        try:
            settings = model.model_validate(lists)
        except ValidationError as error:
            raise describe_faults(f"generic source of the family {family}", model, error) from None
        try:
            _ = settings.verification
        except ConfigError as error:
            raise ConfigError(f"generic source of the family {family}: {error}") from None
        return settings
