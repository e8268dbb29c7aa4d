"""The rows of an index, beside it: Arrow files in which each row has a number that stays its own.

A file holds the rows from the number in its name up to the next file's. Small neighbours become one, so that there are
few, and nothing that points at a row has to be written again. Rows that went stay until the index is made anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.catalog.synced import synced
from headrace.state.sorting import stable_order

SUFFIX = ".arrow"


class KeptRows:
    """The files of a folder as they were when this was made; files go when others take their rows over.

    ``schema``: of the rows. A file that has gone meanwhile raises ``FileNotFoundError``: read the folder again.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder, self.schema = folder, schema
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._firsts = np.array(sorted(int(path.stem) for path in folder.glob(f"*{SUFFIX}")), np.int64)
        self._open: dict[int, pa.Table] = {}

    def take(self, places: npt.NDArray[np.int64]) -> pa.Table:
        """The rows with these numbers, in their order."""
        if not len(places):
            return self.schema.empty_table()
        owner = np.searchsorted(self._firsts, places, "right") - 1
        if owner.min() < 0:
            raise FileNotFoundError(str(self._path(int(places.min()))))
        order = stable_order(owner)
        files, starts = np.unique(owner[order], return_index=True)
        parts = [
            self._file(int(self._firsts[file])).take(pa.array(places[within] - self._firsts[file]))
            for file, within in zip(files, np.split(order, starts[1:]), strict=True)
        ]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).take(pa.array(back))

    def add(self, table: pa.Table, first: int) -> None:
        """Rows with the numbers from ``first`` on, in place of any that have them; on the disk when this returns."""
        self._firsts = self._firsts[self._firsts < first]
        begin, covered = first, list[int]()
        while len(self._firsts) and begin - self._firsts[-1] <= table.num_rows:
            before = int(self._firsts[-1])
            table = pa.concat_tables([self._file(before).slice(0, begin - before), table])
            covered.append(begin)
            begin, self._firsts = before, self._firsts[:-1]
        self._write(table, begin)
        self._firsts = np.append(self._firsts, begin)
        self._remove({int(path.stem) for path in self.folder.glob(f"*{SUFFIX}")} - set(self._firsts.tolist()))

    def _write(self, table: pa.Table, first: int) -> None:
        path, temporary = self._path(first), self.folder / f".{first}.{os.getpid()}"
        with pa.OSFile(str(temporary), "wb") as out, pa.ipc.new_file(out, self.schema) as writer:
            writer.write_table(table.combine_chunks())
        synced(temporary)
        temporary.rename(path)
        synced(self.folder)
        self._open.pop(first, None)

    def _remove(self, firsts: set[int]) -> None:
        for first in firsts:
            self._path(first).unlink(missing_ok=True)
            self._open.pop(first, None)

    def _file(self, first: int) -> pa.Table:
        if first not in self._open:
            with pa.memory_map(str(self._path(first))) as file:
                self._open[first] = pa.ipc.open_file(file).read_all()
        return self._open[first]

    def _path(self, first: int) -> Path:
        return self.folder / f"{first:020d}{SUFFIX}"
