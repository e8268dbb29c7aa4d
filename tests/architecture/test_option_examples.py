"""Each option of a connector that takes a list or a mapping has an example, which an error shows and the option takes."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

import headrace.sinks.connectors
import headrace.sources.connectors
from headrace.formats.options import validate
from headrace.model.errors import HeadraceError


def _models(of: ModuleType) -> Iterator[type[BaseModel]]:
    """Of the file of a connector in which its options are: ``config`` where it has one."""
    for folder in pkgutil.iter_modules(of.__path__, f"{of.__name__}."):
        names = {module.name for module in pkgutil.iter_modules(import_module(folder.name).__path__)}
        module = import_module(f"{folder.name}.{'config' if 'config' in names else 'connector'}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, BaseModel) and value.__name__.endswith("Options"):
                yield value


def _forms(annotation: Any) -> set[Any]:
    origin, inside = get_origin(annotation), get_args(annotation)
    return {origin} if origin in (dict, list, tuple) else set().union(*map(_forms, inside), set())


MODELS = sorted(
    {model for of in (headrace.sources.connectors, headrace.sinks.connectors) for model in _models(of)},
    key=lambda model: (model.__module__, model.__name__),
)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.__module__.split('.')[-2]}.{model.__name__}")
def test_each_option_with_a_form_has_an_example(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        if not _forms(field.annotation) or model.__name__ == "TableOptions":  # whose own is inside another's
            continue
        key = field.alias or name
        assert field.examples, f"{model.__name__}.{name} has no example"
        try:
            validate(model, {key: field.examples[0]}, "sources/x.yaml")
        except HeadraceError as error:
            assert f"'{key}" not in error.what  # but what else is missing
        with pytest.raises(HeadraceError, match=rf"write it like  {key}: ") as caught:
            validate(model, {key: object()}, "sources/x.yaml")
        assert caught.value.code == "config.invalid"


def test_it_looks_at_the_connectors() -> None:
    assert {"PostgresOptions", "MysqlOptions", "HttpOptions", "FilesOptions", "WebhookOptions", "MailOptions"} <= {
        model.__name__ for model in MODELS
    }
