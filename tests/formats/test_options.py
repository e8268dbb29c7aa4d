"""Options are checked whole: every problem is named with its key path, and a misspelt key with the nearest one."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from headrace.formats.options import validate
from headrace.model.errors import HeadraceError


class Table(BaseModel):
    key: list[str] = []


class Options(BaseModel):
    port: int = 7071
    password: str | None = None
    mode: Literal["fast", "safe"] = "safe"
    tables: dict[str, Table]
    inner: Table | None = None
    several: list[Table] = []


def refusal(options: dict[str, Any]) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        validate(Options, options, "sources/shop.yaml")
    assert caught.value.where == "sources/shop.yaml"
    return caught.value


def test_good_options_become_the_model() -> None:
    options = validate(Options, {"port": 1, "tables": {"a": {"key": ["id"]}}}, "")
    assert (options.port, options.mode, options.tables["a"].key) == (1, "safe", ["id"])


def test_misspelt_key_names_the_nearest_one() -> None:
    error = refusal({"prot": 1, "tables": {}})
    assert error.code == "config.unknown_key"
    assert error.what == "unknown key 'prot'"
    assert error.next == "did you mean 'port'?"


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"tables": {"orders": {"kye": []}}}, "tables.orders.kye"),
        ({"tables": {}, "inner": {"kye": []}}, "inner.kye"),
        ({"tables": {}, "several": [{}, {"kye": []}]}, "several[1].kye"),
    ],
)
def test_misspelt_key_inside_is_found(options: dict[str, Any], path: str) -> None:
    error = refusal(options)
    assert error.code == "config.unknown_key"
    assert error.what == f"unknown key '{path}'"
    assert error.next == "did you mean 'key'?"


def test_key_like_nothing_lists_what_there_is() -> None:
    assert refusal({"zzz": 1, "tables": {}}).next == "known keys: inner, mode, password, port, several, tables"


def test_keys_are_listed_once_where_one_is_missing_too() -> None:
    assert refusal({"zzz": 1}).next == "keys: tables (required), inner, mode, password, port, several"


def test_missing_and_mistyped_values_are_all_named() -> None:
    error = refusal({"port": "seventy", "mode": "slow", "prot": 2})
    assert error.code == "config.invalid"
    assert "unknown key 'prot'" in error.what
    assert "'port' must be a valid integer, not 'seventy'" in error.what
    assert "'mode' must be 'fast' or 'safe', not 'slow'" in error.what
    assert "'tables' is missing" in error.what
    assert "did you mean 'port'?" in error.next


def test_value_of_a_secret_is_not_shown() -> None:
    error = refusal({"password": 123456, "tables": {}})
    assert "'password' must be a valid string" in error.what
    assert "123456" not in str(error)


class Told(BaseModel):
    tables: dict[str, str] = Field(default={}, examples=[{"orders": "public.orders"}])
    port: int = 1


def test_a_key_of_some_form_is_shown_as_it_could_be_written() -> None:
    with pytest.raises(HeadraceError) as caught:
        validate(Told, {"tables": {"o": {}, "p": 2}}, "")
    assert caught.value.next == "write it like  tables: {orders: public.orders}"
    with pytest.raises(HeadraceError) as caught:
        validate(Told, {"tables": [1], "port": "x"}, "")
    assert caught.value.what.startswith("'tables' must be a mapping of keys to values, not [1]; 'port' must be")
    assert caught.value.next == "write it like  tables: {orders: public.orders}"
    with pytest.raises(HeadraceError) as caught:
        validate(Told, {"port": "x"}, "")
    assert caught.value.next == "keys: port, tables"
