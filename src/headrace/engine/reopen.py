"""After a start: the views as the catalogue has them, at their last published step."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable, Mapping

from headrace.catalog.store import Catalog
from headrace.engine.compile import Compiler
from headrace.engine.kept import check_all
from headrace.engine.maintain import Maintainer
from headrace.model.definition import ViewDefinition
from headrace.model.errors import HeadraceError


def look_at_state(catalog: Catalog) -> threading.Thread:
    """Read the state of the newest checkpoint through while Spark starts; to be joined before ``reopen``.

    What is found sound is not read again; what is not, `reopen` looks at itself, and tells.
    """
    found = catalog.checkpoint()

    def look() -> None:
        with contextlib.suppress(HeadraceError, OSError):
            check_all(found[1] if found is not None else {})

    thread = threading.Thread(target=look, name="headrace-state", daemon=True)
    thread.start()
    return thread


def reopen(maintainer: Maintainer, compiler: Compiler, wanted: Collection[str] | None = None) -> bool:
    """State from the newest checkpoint and the recorded steps after it; a view that failed stays failed.

    ``wanted``: the views that are defined still: others are about to be dropped, and no step runs them again.
    Whether all views are there. A view that another Spark, other settings or another function of its user have built
    is not: its contents stand as they were until it is built anew, and what it keeps must not be lost until then.
    """
    records = maintainer.catalog.views()
    tables = {name: relation for name, (_, relation) in maintainer.catalog.relations().items()}
    live = {n: r for n, r in records.items() if r.state == "live"}
    compiled = compiler.compile(tables, [ViewDefinition(n, r.sql) for n, r in records.items()], records)
    same = {n: c for n, c in compiled.views.items() if n in live and c.schema.version == live[n].schema.version}
    needed = same.keys() if wanted is None else read_by(wanted, {n: c.reads for n, c in compiled.views.items()})
    views = {n: c for n, c in same.items() if n in needed}
    maintainer.failures.take(records, compiled.views, maintainer.lost.of)
    maintainer.recover(tables, views)
    return views.keys() == live.keys()


def read_by(views: Iterable[str], reads: Mapping[str, Collection[str]]) -> set[str]:
    """The views, and those below them."""
    found, left = set[str](), list(views)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += reads.get(name, ())
    return found
