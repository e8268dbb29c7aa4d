"""Search a view or a table: rows, best first, with what was found in them, at the frontier of the index."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from headrace.catalog.project import STATE
from headrace.catalog.store import Catalog
from headrace.formats.json_tables import rows as json_rows
from headrace.model import bounds
from headrace.model.bounds import NEVER, Deadline
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.model.schema import ViewSchema
from headrace.serve import snapshot
from headrace.serve.fitting import Room
from headrace.serve.search import indexed
from headrace.serve.search.compiled import compiled
from headrace.serve.search.fields import WORDS, texts
from headrace.serve.search.index import FOLDER, RelationIndex, State
from headrace.serve.search.indexed import Indexed
from headrace.serve.search.library import tantivy
from headrace.serve.search.parse import parse

LIMIT_MAX = 10_000  # rows of one answer
OFFSET_MAX = 1_000_000  # rows before it: the best of all these are sorted out
SNIPPET_CHARACTERS = 160
_ATTEMPTS = 3

_searched: dict[Path, tuple[RelationIndex, float]] = {}  # by its folder, and when (of ``time.monotonic``)


@dataclass(frozen=True, slots=True)
class Snippet:
    """The part of a text in which something was found, and where: (begin, end) in characters of ``text``."""

    column: str
    text: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """``rows``: the relation's columns, best first; ``copies``: how often it has each. ``total``: how many rows of it,
    copies counted, are found in all. ``state``, ``reason``: of a view; one that has failed is as of its ``commit``.
    """

    schema: ViewSchema
    commit: int
    query: str
    total: int
    rows: pa.Table
    copies: tuple[int, ...]
    scores: tuple[float, ...]
    snippets: tuple[tuple[Snippet, ...], ...]
    state: str = "live"
    reason: str = ""
    kind: Literal["view", "table"] = "view"

    def as_dict(self) -> dict[str, Any]:
        """For ``--json`` and the HTTP answers: ``{"view", "version", "commit", "query", "total", "hits"}``.

        Of a table ``"table"`` is told in the place of ``"view"`` and ``"version"``. A hit is
        ``{"score", "copies", "row": {column: value}, "snippets": [{"column", "text", "marks"}]}``.
        """
        names = self.schema.names
        hits = [
            {
                "score": round(score, 6),
                "copies": copies,
                "row": dict(zip(names, row, strict=True)),
                "snippets": [{"column": s.column, "text": s.text, "marks": list(map(list, s.marks))} for s in snippets],
            }
            for row, copies, score, snippets in zip(
                json_rows(self.rows), self.copies, self.scores, self.snippets, strict=True
            )
        ]
        failed = {} if self.state == "live" else {"state": self.state, "reason": self.reason}
        of = {"view": self.schema.name, "version": self.schema.version}
        head = of if self.kind == "view" else {"table": self.schema.name}
        return {**head, "commit": self.commit, **failed, "query": self.query, "total": self.total, "hits": hits}


def search(
    project: Path,
    name: str,
    query: str,
    limit: int = 10,
    offset: int = 0,
    *,
    columns: Sequence[str] = (),
    at_least: int = 0,
    most_bytes: int = 1 << 40,
    deadline: Deadline = NEVER,
    progress: Callable[[dict[str, Any]], None] = lambda event: None,
) -> Found:
    """The rows ``offset`` .. ``offset + limit`` of those that a query finds in a view or a table, best first.

    Rows of the same contents are one of these. ``columns``: where words that name no column are looked for; all by
    default. ``most_bytes``: of the rows; those that find no room are left out, as ``total`` shows. An index is brought
    forward at most every 0.1 s, but to commit ``at_least``, as far as that is published, at once. The first search of
    a relation makes its index: a loop over its rows, about 8 s a million, told by ``progress``; a later one adds what
    was published since. ``deadline``: of waiting while another thread does; what this one does comes to its end. Raises
    ``HeadraceError``: view.unknown, search.query, search.index, search.busy, query.timeout, query.size, config.library.
    """
    if not 0 <= limit <= LIMIT_MAX or not 0 <= offset <= OFFSET_MAX:
        raise HeadraceError(
            "search.query", f"{limit:,} rows after {offset:,} cannot be asked for",
            next=f"at most {LIMIT_MAX:,} rows after {OFFSET_MAX:,}; ask for fewer by a narrower query",
        )  # fmt: skip
    tantivy()
    with closing(Catalog(snapshot.catalog_path(project), read_only=True)) as catalog:
        for attempt in range(_ATTEMPTS):
            of = indexed.find(project, catalog, name)
            index = _opened(project, of, indexed.feeds(catalog))
            node = parse(query, index.fields, columns)
            wanted = compiled(node, index.schema)
            try:
                state = index.state(catalog, at_least, progress, deadline)
                kept, scores, total = index.ask(state, wanted, limit, offset)
                _searched[index.folder] = index, time.monotonic()  # now that its folder is there
                break
            except (OSError, ValueError, pa.ArrowException) as error:
                if attempt == _ATTEMPTS - 1:
                    raise _unusable(index, error) from error
                index.forget(damaged=attempt > 0)  # at first another process may have made it anew
        commit, failed = state.frontier.at.commit, ("live", "")
        if of.kind == "view":
            record = snapshot.known(catalog, name)
            commit, failed = snapshot.reached(catalog, record, commit), (record.state, record.reason)
    kept, count = Room(most_bytes).take(kept, limit), kept.num_rows
    if count and not kept.num_rows:
        raise bounds.size(most_bytes)
    rows = kept.select(list(of.schema.names))
    return Found(
        of.schema, commit, query, total, rows, tuple(kept[WEIGHT].to_pylist()),
        tuple(scores[: rows.num_rows]), _snippets(index, state, wanted, rows), *failed, of.kind,
    )  # fmt: skip


def lately(project: Path, within_s: float) -> list[RelationIndex]:
    """The indexes of a project that this process has searched in these seconds; others are forgotten."""
    now, folder = time.monotonic(), project / STATE / FOLDER
    for place, (_, at) in list(_searched.items()):
        if now - at > within_s or not place.exists():
            _searched.pop(place, None)
    return [index for place, (index, _) in list(_searched.items()) if place.parent == folder]


def _unusable(index: RelationIndex, error: Exception) -> HeadraceError:
    return HeadraceError(
        "search.index", f"the index of {index.of.schema.name} cannot be written or read", where=str(index.folder),
        why=str(error), next="look at the disk's space and rights; what is in the folder may be removed",
    )  # fmt: skip


@lru_cache(maxsize=64)
def _opened(project: Path, of: Indexed, known: frozenset[str]) -> RelationIndex:
    """The index of a relation, one for a process; those of versions and tables that are gone are removed."""
    for folder in (project / STATE / FOLDER).glob("[!.]*"):
        if folder.name not in known:
            shutil.rmtree(folder, ignore_errors=True)
    return RelationIndex(project, of)


def _snippets(index: RelationIndex, state: State, query: Any, rows: pa.Table) -> tuple[tuple[Snippet, ...], ...]:
    """Of each row the texts in which words of the query stand."""
    found: list[list[Snippet]] = [[] for _ in range(rows.num_rows)]
    for field in index.fields:
        if field.kind != WORDS:
            continue
        generator = tantivy().SnippetGenerator.create(state.searcher, query, index.schema, field.id)
        generator.set_max_num_chars(SNIPPET_CHARACTERS)
        for place, text in enumerate(texts(rows[field.name].combine_chunks()).to_pylist()):
            document = tantivy().Document()
            document.add_text(field.id, text or "")
            snippet = generator.snippet_from_doc(document)
            if marks := [(mark.start, mark.end) for mark in snippet.highlighted()]:
                found[place].append(Snippet(field.name, snippet.fragment(), _characters(snippet.fragment(), marks)))
    return tuple(map(tuple, found))


def _characters(text: str, marks: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Bytes of a text as characters."""
    whole = text.encode()
    return tuple((len(whole[:begin].decode()), len(whole[:end].decode())) for begin, end in marks)
