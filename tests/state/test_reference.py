"""Goal: a run whose rows lie in other files gives the rows that a copy of them would have, bit by bit.

Method: rows of every kind of type written as streams into one file, with other bytes between them; the run is opened
and compared with the rows in canonical form. Then a piece is damaged, and its file removed.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from zlib_ng import zlib_ng

from headrace.model.errors import HeadraceError
from headrace.state import reference
from headrace.state.reference import Piece, Reference
from headrace.state.rows import canonical
from headrace.state.run import checksums, copies, damage, is_sorted, open_run, rows_of, size_of

TYPES = {"id": "bigint", "x": "double", "text": "string", "m": "map<string,int>", "s": "struct<a:double,b:string>"}
ARROW = pa.schema({
    "id": pa.int64(), "x": pa.float64(), "text": pa.string(), "m": pa.map_(pa.string(), pa.int32()),
    "s": pa.struct({"a": pa.float64(), "b": pa.string()}),
})  # fmt: skip
ROWS = [
    {"id": 1, "x": -0.0, "text": "", "m": [("b", 2), ("a", 1)], "s": {"a": float("nan"), "b": None}},
    {"id": None, "x": float("nan"), "text": None, "m": None, "s": None},
    {"id": 3, "x": 0.5, "text": "é", "m": [], "s": {"a": -0.0, "b": "x"}},
]


def made(folder: Path, *tables: pa.Table) -> Path:
    """A run of these tables in ``folder/state``, which lie in ``folder/log/one``."""
    for name in ("log", "state"):
        (folder / name).mkdir()
    data, pieces = bytearray(b"before"), []
    for each in tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, each.schema) as stream:
            stream.write_table(each, max_chunksize=2)
        stored = sink.getvalue().to_pybytes()
        pieces.append(Piece("../log/one", len(data), len(stored), zlib_ng.crc32(stored)))
        data += stored + b"between"
    (folder / "log/one").write_bytes(bytes(data))
    path = folder / f"state/run{reference.SUFFIX}"
    reference.write(path, Reference([*TYPES.items()], pieces, sum(each.num_rows for each in tables)))
    return path


def test_its_rows_are_those_of_the_pieces(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS, ARROW)
    path = str(made(tmp_path, table.append_column("_op", pa.array([0, 0, 0])), table.slice(1)))
    found = open_run(path)
    assert found.column_names == ["c0", "c1", "c2", "c3", "c4", "_w", "_i"]
    assert found["_w"].to_pylist() == found["_i"].to_pylist() == [1] * 5
    whole = pa.concat_tables([table, table.slice(1)])
    for number, name in enumerate(TYPES):
        assert repr(found[f"c{number}"].to_pylist()) == repr(canonical(whole[name]).to_pylist())
    assert (rows_of(path), copies(path), is_sorted(path)) == (5, 5, False)
    assert size_of(path) == sum(piece.length for piece in reference.read(path).pieces) > 1000
    assert damage(Path(path), checksums(Path(path), sync=True)) == ""


def test_a_column_that_was_not_there_then_is_null(tmp_path: Path) -> None:
    found = open_run(str(made(tmp_path, pa.Table.from_pylist(ROWS, ARROW).drop_columns(["text"]))))
    assert found["c2"].to_pylist() == [None] * 3 and found["c0"].to_pylist() == [1, None, 3]


def test_what_is_wrong_with_a_piece_is_told(tmp_path: Path) -> None:
    path, lies = made(tmp_path, pa.Table.from_pylist(ROWS, ARROW)), tmp_path / "log/one"
    reference.check(str(path))
    data = bytearray(lies.read_bytes())
    data[200] ^= 1
    lies.write_bytes(bytes(data))
    for look in (reference.check, open_run):
        with pytest.raises(HeadraceError, match="segment one, offset 6") as error:
            look(str(path))
        assert error.value.code == "log.corrupt"
    lies.write_bytes(bytes(data[:300]))
    with pytest.raises(HeadraceError, match=r"log\.corrupt"):
        reference.check(str(path))
    lies.unlink()
    with pytest.raises(HeadraceError, match=r"state\.missing"):
        open_run(str(path))
