"""Changes of the quarantine as they are sent again: the same ones, with another operation, or corrected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.formats.csv_rows import json_value
from headrace.formats.json_changes import change_table
from headrace.formats.json_rows import RowsRefused, exact_numbers, parse, refuse_nulls
from headrace.formats.types.arrow import to_arrow
from headrace.formats.types.json import nearest, shown
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.model.transaction import DELETE, INSERT, OPERATION, ORDINAL, STRICT, UNCHANGED, UPDATE, UPSERT
from headrace.serve import quarantine
from headrace.serve.quarantine import HEAD

# What a change may be sent again as. All but `replace` go back into the quarantine where they still do not fit.
AS = {
    "insert": INSERT | STRICT, "update": UPDATE | STRICT, "replace": INSERT | UPSERT, "delete": DELETE | STRICT,
}  # fmt: skip
WHOLE = ("insert", "replace")  # these need every column


def changes(relation: Relation, parts: Sequence[pa.Table], as_: str | None) -> pa.Table:
    """One transaction's change table from some changes of a table in the quarantine (``HEAD``, columns), in order.

    ``as_``: one of ``AS``; None: as each was. Raises ``HeadraceError``: source.row where a row does not fit what the
    table's columns are now, quarantine.replay where ``as_`` is not possible.
    """
    made = []
    for part in parts:
        _check_possible(relation, part, as_)
        made.append(_same(relation, part, as_) if _fits(relation, part) else _anew(relation, part, as_))
    return joined(made)


def joined(made: Sequence[pa.Table]) -> pa.Table:
    """Change tables of one relation as one."""
    if any(UNCHANGED in table.column_names for table in made):
        made = [
            table if UNCHANGED in table.column_names
            else table.add_column(2, UNCHANGED, pa.nulls(table.num_rows, pa.binary()))
            for table in made
        ]  # fmt: skip
    return pa.concat_tables(made)


def corrected(
    relation: Relation, change: pa.Table, values: Mapping[str, Any], row: Mapping[str, Any] | None, as_: str | None
) -> pa.Table:
    """The same for one change with other ``values`` (of JSON), or another ``row`` in the place of its own."""
    (kept,) = quarantine.shown(relation.name, change)
    verb = as_ or kept["operation"]
    if row is None:
        of_key = kept["operation"] == "delete" and bool(relation.key)  # the rest of its row is not known
        before = {n: v for n, v in kept["row"].items() if n in relation.key or not of_key}
        row = {**before, **values}
        missing = [name for name in relation.names if name not in row]
        if verb in WHOLE and missing:
            raise impossible(
                kept["id"], f"the value of {', '.join(missing)} is not known", "give it, or the whole row with --row"
            )
    _check_verb(relation, verb)
    return _typed(relation, [row], [verb], lambda at: str(kept["id"]))


def read_row(relation: Relation, text: str) -> dict[str, Any]:
    """A row as JSON text; ``source.row`` for what is none."""
    try:
        found = parse(text.encode(), exact_numbers(relation.columns))
    except ValueError as error:
        raise HeadraceError("source.row", "the row is not JSON", where=relation.name, why=str(error)) from None
    if not isinstance(found, dict):
        raise HeadraceError("source.row", f"the row must be an object, not {shown(found)}", where=relation.name)
    return found


def cells(relation: Relation, given: Mapping[str, str]) -> dict[str, Any]:
    """Texts as JSON values of their columns; an empty one is null, but in a text column empty text."""
    found = {}
    for name, text in given.items():
        column = _column(relation, name)
        found[name] = json_value(text, to_arrow(column.type))
    return found


def _column(relation: Relation, name: str) -> Column:
    for column in relation.columns:
        if column.name == name:
            return column
    raise HeadraceError(
        "source.row", f"{relation.name} has no column '{name}'", next=nearest(name, list(relation.names))
    )


def _check_verb(relation: Relation, verb: str) -> None:
    if verb not in AS:
        raise HeadraceError(
            "quarantine.replay", f"a change cannot be sent again as '{verb}'", next=nearest(verb, list(AS))
        )
    if verb in ("update", "replace") and not relation.key:
        raise HeadraceError(
            "quarantine.replay",
            f"{relation.name} has no key to find the row to {verb} by",
            next="--as insert or delete",
        )


def _check_possible(relation: Relation, part: pa.Table, as_: str | None) -> None:
    if as_ is None:
        return
    _check_verb(relation, as_)
    of_key = bool(relation.key)
    for at, (was, left_out) in enumerate(zip(part[HEAD[2]].to_pylist(), part[HEAD[4]].to_pylist(), strict=True)):
        only_key = was == "delete" and of_key and as_ != "delete"
        if only_key or (left_out is not None and as_ in WHOLE):
            raise impossible(
                quarantine.named(relation.name, part.slice(at, 1))[0].id,
                f"of the {was} only some columns are known",
                "`headrace quarantine fix` with the whole row sends it corrected",
            )


def impossible(id: str, why: str, next: str) -> HeadraceError:
    """The error for what cannot be sent again in that way."""
    return HeadraceError("quarantine.replay", "the change cannot be sent again as asked", where=id, why=why, next=next)


def _fits(relation: Relation, part: pa.Table) -> bool:
    """Whether the table has the columns that it had when the changes were set aside."""
    fields = [(field.name, field.type) for field in part.schema][len(HEAD) :]
    return fields == [(column.name, to_arrow(column.type)) for column in relation.columns]


def _same(relation: Relation, part: pa.Table, as_: str | None) -> pa.Table:
    codes = np.array([AS[as_ or was] for was in part[HEAD[2]].to_pylist()], np.int8)
    columns = [part[name].combine_chunks() for name in relation.names]
    whole = pa.array((codes & (STRICT - 1)) == INSERT)
    required = [column.name for column in relation.columns if not column.nullable]
    try:
        refuse_nulls([column.filter(whole) for column in columns], relation.columns, required)
    except RowsRefused as refused:
        those = quarantine.named(relation.name, part.filter(whole))
        raise _row_error(those[refused.bad[0].row].id, refused.bad[0].why) from None
    head = {ORDINAL: pa.array(np.zeros(len(codes), np.int32)), OPERATION: pa.array(_coded(codes, relation))}
    if part[HEAD[4]].null_count < len(codes) and as_ != "delete":
        head[UNCHANGED] = part[HEAD[4]]
    return pa.table([*head.values(), *columns], names=[*head, *relation.names])


def _anew(relation: Relation, part: pa.Table, as_: str | None) -> pa.Table:
    kept = quarantine.shown(relation.name, part)
    return _typed(
        relation, [c["row"] for c in kept], [as_ or c["operation"] for c in kept], lambda at: str(kept[at]["id"])
    )


def _typed(
    relation: Relation, rows: Sequence[Mapping[str, Any]], verbs: Sequence[str], place: Callable[[int], str]
) -> pa.Table:
    codes = np.array([AS[verb] for verb in verbs], np.int8)
    try:
        return change_table(rows, np.zeros(len(rows), np.int32), codes, relation)
    except RowsRefused as refused:
        raise _row_error(place(refused.bad[0].row), refused.bad[0].why) from None


def _coded(codes: np.ndarray, relation: Relation) -> np.ndarray:
    return codes if relation.key else codes & (STRICT - 1)


def _row_error(id: str, why: str) -> HeadraceError:
    return HeadraceError(
        "source.row", why, where=id, why="the row does not fit its table; nothing was sent again",
        next=f"`headrace quarantine fix {id} COLUMN=VALUE` sends it corrected",
    )  # fmt: skip
