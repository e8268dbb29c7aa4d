"""Options as a user wrote them -> a checked pydantic model; every problem is named, with its key path."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from headrace.formats.secrets import HOLDS_SECRET
from headrace.model.errors import HeadraceError

_Model = TypeVar("_Model", bound=BaseModel)
_END = "...\n"  # of a YAML document that is one word


def validate(model: type[_Model], options: Mapping[str, Any], where: str = "") -> _Model:
    """An instance of ``model`` made from ``options``; ``where`` names the file in errors.

    Unknown keys are refused at every level, whatever the model's own ``extra`` setting is. Raises
    ``HeadraceError`` ``config.unknown_key`` (with the nearest known key) when all that is wrong is unknown
    keys, else ``config.invalid``; several problems are all listed.
    """
    unknown, examples = list(_unknown(model, options, ())), list[str]()
    problems = [f"unknown key '{_path(path)}'" for path, _ in unknown]
    named = {path[-1] for path, _ in unknown}
    try:
        checked = model.model_validate(dict(options))
    except ValidationError as error:
        errors = [e for e in error.errors() if e["type"] != "extra_forbidden" or e["loc"][-1] not in named]
        problems += [_problem(e) for e in errors]
        examples = [shown for e in errors for shown in _example(model, e["loc"])]
    else:
        if not unknown:
            return checked
    hints, why = [_hint(path, known) for path, known in unknown], ""
    if len(problems) == len(unknown):
        code, what, why = "config.unknown_key", "; ".join(problems), "nothing reads it" if len(problems) == 1 else ""
    else:
        code, what = "config.invalid", "; ".join(problems)
        keys = _listed(sorted(field.alias or name for name, field in model.model_fields.items()))
        hints = [*hints, *examples] if examples else [*(hint for hint in hints if hint != keys), _known(model)]
    raise HeadraceError(code, what, where=where, why=why, next="; ".join(dict.fromkeys(hints)))


def _unknown(
    model: type[BaseModel], value: Mapping[str, Any], at: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], list[str]]]:
    """(key path, known keys) of every key that no field takes, depth first."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, inner in value.items():
        if key not in fields:
            if model.model_config.get("extra") != "allow":
                yield (*at, key), sorted(fields)
        else:
            yield from _inside(fields[key].annotation, inner, (*at, key))


def _inside(annotation: Any, value: Any, at: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], list[str]]]:
    """Unknown keys in a value of that annotation: models, and models in lists, mappings and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if isinstance(value, Mapping):
            yield from _unknown(annotation, value, at)
        return
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _inside(arguments[0], value, at)
    elif origin in (Union, types.UnionType):
        models = [a for a in arguments if isinstance(a, type) and issubclass(a, BaseModel)]
        for inner in models if len(models) == 1 else (a for a in arguments if a not in models):
            yield from _inside(inner, value, at)
    elif isinstance(value, Mapping) and len(arguments) == 2:
        for key, item in value.items():
            yield from _inside(arguments[1], item, (*at, key))
    elif isinstance(value, Sequence) and not isinstance(value, str) and arguments:
        for number, item in enumerate(value):
            yield from _inside(arguments[0], item, (*at, number))


def _problem(error: Any) -> str:
    """One pydantic error in words: key path, what was expected, what was found."""
    path, message = _path(error["loc"]), str(error["msg"])
    if error["type"] == "missing":
        return f"'{path}' is missing"
    expected = message.removeprefix("Value error, ").removeprefix("Input should be ").partition(", unable to")[0]
    expected = re.sub(r"a valid dictionary( or instance of \w+)?", "a mapping of keys to values", expected)
    if expected == message:
        return f"'{path}': {message}" if path else message
    if message.startswith("Value error, "):
        return f"'{path}': {expected}" if path else expected
    found = f"a {type(error['input']).__name__}" if HOLDS_SECRET.search(path) else f"{error['input']!r:.60}"
    return f"'{path}' must be {expected}, not {found}"


def _path(location: tuple[Any, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _hint(path: tuple[Any, ...], known: list[str]) -> str:
    near = difflib.get_close_matches(str(path[-1]), known, n=1)
    return f"did you mean '{near[0]}'?" if near else _listed(known)


def _listed(known: list[str]) -> str:
    return f"known keys: {', '.join(known)}"


def _example(model: type[BaseModel], location: tuple[Any, ...]) -> Iterator[str]:
    """The line that a user could have written for the key in which something is wrong, where its field has one."""
    for name, field in model.model_fields.items():
        if location[:1] == (field.alias or name,) and field.examples:
            value = yaml.safe_dump(field.examples[0], default_flow_style=True, sort_keys=False, width=1000)
            yield f"write it like  {location[0]}: {value.removesuffix(_END).strip()}"


def _known(model: type[BaseModel]) -> str:
    """The keys of a model, the required ones first."""
    fields = {field.alias or name: field.is_required() for name, field in model.model_fields.items()}
    names = sorted(fields, key=lambda name: (not fields[name], name))
    return f"keys: {', '.join(f'{name} (required)' if fields[name] else name for name in names)}"
