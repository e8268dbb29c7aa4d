"""Judging a history of appends to lists and of reads of several lists at once, without any code of the product.

Every value is appended once, so what a read saw tells which transactions it saw. A read of a list shows the transaction
that appended its last value (write-read) and not the one that appended the next (read-write); appends to one list follow
each other (write-write); the source's transactions have an order, and so have two reads of which one had ended before
the other began. All of that together has no cycle if and only if each read saw a whole prefix of the source's
transactions, and none saw less than a read before it: strict serializability, but that reads may be behind.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Appends = Sequence[tuple[int, int]]  # (key, value), of one transaction


@dataclass(frozen=True, slots=True)
class Read:
    """Lists seen at once, by key. ``began`` and ``ended``: on one clock for all readers."""

    began: float
    ended: float
    lists: Mapping[int, Sequence[int]]


def anomalies(transactions: Sequence[Appends], reads: Sequence[Read], *, complete: bool) -> list[str]:
    """What is wrong, in words. ``complete``: the last read must have all that was appended to the lists it reads."""
    lists: dict[int, list[int]] = {}
    writer: dict[tuple[int, int], int] = {}
    for number, appends in enumerate(transactions):
        for key, value in appends:
            lists.setdefault(key, []).append(value)
            writer[key, value] = number
    found: list[str] = []
    for number, read in enumerate(reads):
        for key, seen in read.lists.items():
            found += _of_one_list(number, key, list(seen), lists.get(key, []), writer)
    if complete and reads:
        for key, seen in reads[-1].lists.items():
            if len(seen) < len(lists.get(key, [])):
                found.append(f"lost: list {key} ends with {len(seen)} of {len(lists[key])} values")
    return found or _cycles(transactions, reads, lists, writer)


def _of_one_list(
    number: int, key: int, seen: list[int], whole: list[int], writer: Mapping[tuple[int, int], int]
) -> list[str]:
    if seen == whole[: len(seen)]:
        return []
    strange = [value for value in seen if (key, value) not in writer]
    if strange:
        return [f"read {number}: nobody appended {strange[:3]} to list {key}"]
    if len(set(seen)) < len(seen):
        return [f"doubled: read {number} of list {key} has {next(v for v in seen if seen.count(v) > 1)} twice"]
    if sorted(seen, key=whole.index) == seen:
        return [f"lost: read {number} of list {key} lacks {next(v for v in whole if v not in seen)}, has later ones"]
    return [f"reordered: read {number} has list {key} as {seen[:10]}, appended were {whole[:10]}"]


def _cycles(
    transactions: Sequence[Appends], reads: Sequence[Read], lists: Mapping[int, Sequence[int]],
    writer: Mapping[tuple[int, int], int],
) -> list[str]:  # fmt: skip
    """Nodes: the transactions, the reads, and for each end of a read a moment; edges: what must have come before."""
    first_read, first_moment = len(transactions), len(transactions) + len(reads)
    after: list[list[int]] = [[] for _ in range(first_moment + len(reads))]
    for number in range(1, len(transactions)):
        after[number - 1].append(number)
    for key, values in lists.items():
        for earlier, later in itertools.pairwise(values):
            if writer[key, earlier] != writer[key, later]:
                after[writer[key, earlier]].append(writer[key, later])
    for number, read in enumerate(reads):
        node = first_read + number
        for key, seen in read.lists.items():
            whole = lists.get(key, [])
            if seen:
                after[writer[key, seen[-1]]].append(node)
            if len(seen) < len(whole):
                after[node].append(writer[key, whole[len(seen)]])
    ends = sorted(range(len(reads)), key=lambda n: reads[n].ended)
    begins = sorted(range(len(reads)), key=lambda n: reads[n].began)
    place = 0
    for moment, number in enumerate(ends):
        after[first_read + number].append(first_moment + moment)
        if moment:
            after[first_moment + moment - 1].append(first_moment + moment)
    for number in begins:
        while place < len(ends) and reads[ends[place]].ended < reads[number].began:
            place += 1
        if place:
            after[first_moment + place - 1].append(first_read + number)
    found = []
    for part in components(after):
        if len(part) > 1:
            names = [
                f"transaction {n}" if n < first_read else f"read {n - first_read}"
                for n in sorted(part)
                if n < first_moment
            ]
            found.append(f"cycle of {len(part)}: {', '.join(names[:3])} ... {', '.join(names[-3:])}")
    return found


def components(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """Strongly connected components (Tarjan), without recursion."""
    index = [-1] * len(after)
    low = [0] * len(after)
    waiting = [False] * len(after)
    stack: list[int] = []
    found: list[list[int]] = []
    count = 0
    for root in range(len(after)):
        if index[root] >= 0:
            continue
        path = [(root, 0)]
        while path:
            node, at = path.pop()
            if at == 0:
                index[node] = low[node] = count
                count += 1
                stack.append(node)
                waiting[node] = True
            for place in range(at, len(after[node])):
                following = after[node][place]
                if index[following] < 0:
                    path += [(node, place + 1), (following, 0)]
                    break
                if waiting[following]:
                    low[node] = min(low[node], index[following])
            else:
                if low[node] == index[node]:
                    part = []
                    while True:
                        last = stack.pop()
                        waiting[last] = False
                        part.append(last)
                        if last == node:
                            break
                    found.append(part)
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
    return found
