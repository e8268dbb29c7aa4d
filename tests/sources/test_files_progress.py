"""Goal: while large files are read it is told how many bytes of them are; small files and those that grow are not told.

Method: chunks of a line and blocks of a few, so that what is told stands between two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.formats import csv_rows, json_rows
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch
from headrace.sources.connectors.files import connector
from headrace.sources.connectors.files.connector import FilesSource

LINE = '{"n": 1}\n'


@pytest.fixture
def source(tmp_path: Path) -> FilesSource:
    options = {"path": ".", "poll_seconds": 0.02, "columns": {"n": "bigint"}, "on_error": "quarantine"}
    source = FilesSource("events", options, base=tmp_path)
    source.start(frozenset({"events"}), None)
    return source


def polled(source: FilesSource) -> TransactionBatch:
    while (batch := source.poll(0.2)) is None:
        pass
    return batch


def heard(monkeypatch: pytest.MonkeyPatch, source: FilesSource, module: Any, makes: str) -> list[list[dict[str, Any]]]:
    """What the source tells, each time that ``makes`` makes rows; large is what takes any time, if it is told."""
    told: list[list[dict[str, Any]]] = []
    made: Callable[..., Any] = getattr(module, makes)

    def noted(*arguments: Any) -> Any:
        told.append([one.shown() for one in source.copying()])
        return made(*arguments)

    monkeypatch.setattr(module, makes, noted)
    monkeypatch.setattr(json_rows, "CHUNK_BYTES", 1)
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 16)
    return told


def test_json_lines_of_all_files_that_are_there(
    tmp_path: Path, source: FilesSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "TOLD_S", 0.0)
    told = heard(monkeypatch, source, json_rows, "to_columns")
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(LINE * 3)
    batch = polled(source)
    assert source.copying() == []
    assert [one["done"] for (one,) in told] == [0, 9, 18, 27, 36, 45]
    assert {(one["table"], one["unit"], one["total"]) for (one,) in told} == {("events", "bytes", 54)}
    assert told[3][0]["left_s"] == pytest.approx(27 / told[3][0]["per_s"], abs=0.06)
    told.clear()
    source.reject(batch, ValueError())  # they are read again
    source.confirm(polled(source), 1)
    assert [one["done"] for (one,) in told] == [0, 9, 18, 27, 36, 45] and source.copying() == []


def test_csv_by_its_blocks(tmp_path: Path, source: FilesSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "TOLD_S", 0.0)
    told = heard(monkeypatch, source, csv_rows, "_typed")
    (tmp_path / "a.csv").write_text("n\n" + "12345\n" * 9)
    assert polled(source).rows == 9
    assert [(one["done"], one["total"]) for (one,) in told] == [(0, 56), (16, 56), (32, 56), (48, 56)]


def test_csv_with_bad_rows_from_its_beginning_again(
    tmp_path: Path, source: FilesSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "TOLD_S", 0.0)
    monkeypatch.setattr(csv_rows, "SIFTED_ROWS", 4)
    told = heard(monkeypatch, source, csv_rows, "_columns")
    (tmp_path / "a.csv").write_text("n\n" + "12345\n" * 7 + "wrong\n")
    assert polled(source).rows == 7
    assert [one["done"] for (one,) in told] == [0, 24, 24]  # the last rows without the bad one


def test_nothing_of_what_is_read_within_a_second(
    tmp_path: Path, source: FilesSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = heard(monkeypatch, source, json_rows, "to_columns")
    small = tmp_path / "a.jsonl"
    small.write_text(LINE * 3)
    source.confirm(polled(source), 1)
    for commit in (2, 3):  # and as it grows
        with small.open("a") as file:
            file.write(LINE)
        source.confirm(polled(source), commit)
    assert told == [[]] * 5


def test_nothing_while_a_bad_file_is_in_the_way(
    tmp_path: Path, source: FilesSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "TOLD_S", 0.0)
    (tmp_path / "a.csv").write_text("other\n1\n")
    (tmp_path / "b.csv").write_text("n\n1\n")
    with pytest.raises(HeadraceError, match="other"):
        polled(source)
    assert source.copying() == []
