"""A process that writes transfers to a store and tells each commit it has written: KIND PLACE SEED COUNT."""

from __future__ import annotations

import sys
from pathlib import Path

from sink_histories import transfers
from sink_stores import DuckdbStore, PostgresStore


def main(kind: str, place: str, seed: str, count: str) -> None:
    store = PostgresStore(place) if kind == "postgres" else DuckdbStore(Path(place))
    sink = store.sink()
    frontier = sink.open() or 0
    for delivery, _, _ in transfers(int(seed), int(count)):
        if delivery.commit > frontier:
            sink.write(delivery)
            print(delivery.commit, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
