"""What a process has made, handed to the one that it is a copy of: in memory that both have, where it stays."""

from __future__ import annotations

import mmap
import pickle
from dataclasses import dataclass
from typing import Any

ALIGNED = 64  # bytes: Arrow's buffers begin at multiples of it


@dataclass(frozen=True, slots=True)
class Handed:
    """``head``: what it is; ``spans``: where its buffers lie in the memory, from and to which byte."""

    head: bytes
    spans: tuple[tuple[int, int], ...]


def give(found: Any, memory: int) -> Handed:
    """Copy it to an empty file of ``os.memfd_create``."""
    buffers = list[pickle.PickleBuffer]()
    head = pickle.dumps(found, protocol=5, buffer_callback=buffers.append)
    spans = list[tuple[int, int]]()
    with open(memory, "wb", closefd=False) as file:
        for buffer in buffers:
            begin = file.seek(-(-file.tell() // ALIGNED) * ALIGNED)
            file.write(buffer.raw())
            spans.append((begin, file.tell()))
        file.truncate(file.tell() or 1)  # nothing cannot be mapped
    return Handed(head, tuple(spans))


def take(handed: Handed, memory: int) -> Any:
    """The same, whose buffers are those of the memory: it is there for as long as one of them is used."""
    view = memoryview(mmap.mmap(memory, 0, access=mmap.ACCESS_READ))
    return pickle.loads(handed.head, buffers=[view[begin:end] for begin, end in handed.spans])
