"""A run whose rows lie in other files: what came in large pieces is kept where it was first written.

The file is JSON: which columns, and pieces of files beside it, each a stream of Arrow IPC. Every row is there once.
Record: docs/decisions/0037-rows-that-stay-in-the-log.md.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
from zlib_ng import zlib_ng

from headrace.formats import recorded
from headrace.formats.types.arrow import to_arrow
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.state.mapped import mapped
from headrace.state.rows import canonical

SUFFIX = ".ref"
INSTANT = "_i"


@dataclass(frozen=True, slots=True)
class Piece:
    """``length`` bytes from ``offset`` on, whose CRC-32 is ``crc``. ``file``: its path from the reference's folder."""

    file: str
    offset: int
    length: int
    crc: int


@dataclass(frozen=True, slots=True)
class Reference:
    """``columns``: the name in the pieces, and the type, of ``c0 ..``."""

    columns: Sequence[tuple[str, str]]
    pieces: Sequence[Piece]
    rows: int

    @property
    def size(self) -> int:
        """Bytes of the pieces."""
        return sum(piece.length for piece in self.pieces)

    def lies_in(self, files: Collection[str]) -> bool:
        """Whether some of it lies in a file of one of these names."""
        return any(piece.file.rpartition("/")[2] in files for piece in self.pieces)


def is_reference(path: str) -> bool:
    return path.endswith(SUFFIX)


def write(path: Path, reference: Reference) -> None:
    """All of it or nothing. An ``OSError`` names the file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(orjson.dumps(asdict(reference)))
    temporary.rename(path)


@lru_cache(maxsize=512)
def read(path: str) -> Reference:
    """Raises ``HeadraceError`` (state.missing)."""
    with mapped(path) as file:
        found = orjson.loads(file.read())
    columns = [(name, type) for name, type in found["columns"]]
    return Reference(columns, [Piece(**piece) for piece in found["pieces"]], found["rows"])


def rows(path: str) -> pa.Table:
    """``c0 ..``, ``_w``, ``_i``: mapped, a chunk for each batch of a piece.

    Raises as ``check`` does.
    """
    reference = read(path)
    types = [to_arrow(type) for _, type in reference.columns]
    fields = [(f"c{i}", type) for i, type in enumerate(types)]
    schema = pa.schema([*fields, (WEIGHT, pa.int64()), (INSTANT, pa.int32())])
    batches = []
    for data in _pieces(path, reference):
        with pa.ipc.open_stream(data) as stream:
            for batch in stream:
                columns = [
                    canonical(recorded.values(batch, name, type))
                    for (name, _), type in zip(reference.columns, types, strict=True)
                ]
                ones = (each.slice(0, batch.num_rows) for each in _ones(batch.num_rows.bit_length()))
                batches.append(pa.RecordBatch.from_arrays([*columns, *ones], schema=schema))
    return pa.Table.from_batches(batches, schema)


@lru_cache(maxsize=1)
def _ones(bits: int) -> tuple[pa.Array, pa.Array]:
    """``2 ** bits`` weights and instants: the same memory for all batches of a size."""
    return pa.array(np.ones(1 << bits, np.int64)), pa.array(np.ones(1 << bits, np.int32))


def check(path: str) -> None:
    """Raises ``HeadraceError``: state.missing, and log.corrupt where a piece is not as it was referred to.

    Work: one reading of the pieces.
    """
    for _ in _pieces(path, read(path)):
        pass


def _pieces(path: str, reference: Reference) -> Iterator[pa.Buffer]:
    """The bytes of each, not copied."""
    files: dict[str, pa.MemoryMappedFile] = {}
    for piece in reference.pieces:
        if piece.file not in files:
            files[piece.file] = mapped(os.path.normpath(Path(path).parent / piece.file))
        files[piece.file].seek(piece.offset)
        data = files[piece.file].read_buffer(piece.length)
        if zlib_ng.crc32(data) != piece.crc:
            raise HeadraceError(
                "log.corrupt", "Rows of the log to which kept state refers are not as they were written.",
                where=f"segment {Path(piece.file).name}, offset {piece.offset}",
                why=f"the CRC-32 of the next {piece.length} bytes was {piece.crc:08x}",
                next="`headrace log verify` tells what still stands. `headrace restore BACKUP DIR` makes the project "
                "anew from a backup. Nothing was changed.",
            )  # fmt: skip
        yield data
