"""Places in an order as numbers: eight bytes at a time, so that comparing numbers compares bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.state.rows import row_codes

Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_WIDE = 8  # words a place beyond which sorting by ranks is cheaper than by words


class Places:
    """A column of places, as ``Order.encode`` makes it, read without a copy."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        if pa.types.is_uint64(array.type):
            self.numbers: Words | None = array.to_numpy()
            self.size = 0
            return
        self.numbers = None
        buffers = array.buffers()
        text = buffers[-1]
        self.bytes = np.frombuffer(text if text is not None else b"", np.uint8)
        if pa.types.is_fixed_size_binary(array.type):
            self.size, self.offsets = int(array.type.byte_width), np.empty(0, np.int32)
            self.bytes = self.bytes[array.offset * self.size :]
        else:
            self.size = 0
            self.offsets = np.frombuffer(buffers[1] or b"", np.int32)[array.offset :]

    def width(self, rows: Rows) -> int:
        """Words that hold the longest of the places."""
        if self.numbers is not None:
            return 1
        if self.size:
            return (self.size + 7) // 8
        if len(rows) == 0:
            return 0
        return int((self.offsets[rows + 1] - self.offsets[rows]).max() + 7) // 8

    def words(self, rows: Rows, width: int) -> Words:
        """(rows, width): the first ``8 * width`` bytes of each place, with zeros after its end."""
        if self.numbers is not None:
            return self.numbers[rows][:, None]
        if self.size:
            return self._of_fixed_size(self._whole[rows], width)
        starts = self.offsets[rows].astype(np.int64)
        return byte_words(self.bytes, starts, self.offsets[rows + 1] - starts, width)

    @property
    def _whole(self) -> npt.NDArray[np.uint8]:
        """(rows, size): the places of one size."""
        start, count = self.array.offset * self.size, len(self.array)
        return self.bytes[start : start + count * self.size].reshape(count, self.size)

    def _of_fixed_size(self, places: npt.NDArray[np.uint8], width: int) -> Words:
        padded = np.zeros((len(places), 8 * width), np.uint8)
        taken = min(self.size, 8 * width)
        padded[:, :taken] = places[:, :taken]
        return padded.view(">u8").astype(np.uint64)

    def one(self, row: int, width: int) -> int | bytes:
        """A place by itself, as it compares with others of the same width (see ``as_one``)."""
        if self.numbers is not None:
            return int(self.numbers[row])
        if self.size:
            start, end = (row + self.array.offset) * self.size, (row + self.array.offset + 1) * self.size
        else:
            start, end = int(self.offsets[row]), int(self.offsets[row + 1])
        return self.bytes[start : min(end, start + 8 * width)].tobytes().ljust(8 * width, b"\0")

    def as_one(self, words: Words) -> int | bytes:
        """What ``words`` says of one place, in the form of ``one``."""
        return int(words[0]) if self.numbers is not None else words.astype(">u8").tobytes()

    def sort_keys(self) -> list[Words]:
        """Numbers by which, from first to last, all of the column sorts as its places do."""
        rows = np.arange(len(self.array))
        width = self.width(rows)
        if width > _WIDE:
            return [row_codes([self.array]).view(np.uint64)]
        return list((self._of_fixed_size(self._whole, width) if self.size else self.words(rows, width)).T)


def byte_words(buffer: npt.NDArray[np.uint8], starts: Rows, lengths: Rows, width: int) -> Words:
    """(strings, width) numbers: the first ``8 * width`` bytes of each string, zeros after its end.

    ``starts`` and ``lengths`` say where in ``buffer`` the strings lie. Work follows the strings, not the buffer.
    """
    if len(buffer) < 8:
        buffer = np.r_[buffer, np.zeros(8, np.uint8)]
    every = np.ndarray((len(buffer) - 7,), ">u8", buffer=buffer, strides=(1,))  # the word at each byte
    step = 8 * np.arange(width)
    wanted = starts[:, None] + step
    left = np.clip(lengths[:, None] - step, 0, 8)
    # A word that would reach over the buffer's end is read earlier and shifted into place.
    at = np.minimum(wanted, len(every) - 1)
    words = every[at].astype(np.uint64) << (8 * np.clip(wanted - at, 0, 7)).astype(np.uint64)
    unused = (8 * (8 - np.maximum(left, 1))).astype(np.uint64)
    result: Words = words & np.where(left == 0, np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF) << unused)
    return result


def less(left: Words, right: Words) -> Flags:
    """For each row whether it is less than the other, the first column deciding first."""
    result = np.zeros(len(left), np.bool_)
    for place in reversed(range(left.shape[1])):
        a, b = left[:, place], right[:, place]
        result = (a < b) | ((a == b) & result)
    return result


def equal(left: Words, right: Words) -> Flags:
    """For each row whether it equals the other."""
    same: Flags = (left == right).all(axis=1)
    return same
