"""After a start: the views as the catalogue has them, at their last published step."""

from __future__ import annotations

from headrace.engine.compile import Compiler
from headrace.engine.maintain import Maintainer
from headrace.model.definition import ViewDefinition


def reopen(maintainer: Maintainer, compiler: Compiler) -> bool:
    """State from the newest checkpoint and the recorded steps after it; a view that failed stays failed.

    Whether all views are there. A view that another Spark, other settings or another function of its user have built
    is not: its contents stand as they were until it is built anew, and what it keeps must not be lost until then.
    """
    records = maintainer.catalog.views()
    tables = {name: relation for name, (_, relation) in maintainer.catalog.relations().items()}
    live = {n: r for n, r in records.items() if r.state == "live"}
    compiled = compiler.compile(tables, [ViewDefinition(n, r.sql) for n, r in records.items()], records)
    views = {n: c for n, c in compiled.views.items() if n in live and c.schema.version == live[n].schema.version}
    maintainer.failures.take(records, compiled.views, maintainer.lost.of)
    maintainer.recover(tables, views)
    return views.keys() == live.keys()
