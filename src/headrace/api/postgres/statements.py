"""What a client's statement asks for: reads, the few commands of a session; what would change something is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.model.errors import HeadraceError
from headrace.sql import definitions, lexer
from headrace.sql.definitions import Change, Look
from headrace.sql.lexer import Token
from headrace.sql.words import Words

TEXT_CHARS = 2_000_000  # of statements that come at once: for each sign of them some bytes are taken
NAME = 63  # characters of a savepoint's name that count, as in PostgreSQL
QUERIES = ("select", "with", "values", "table", "from", "(", "describe", "summarize")
_WRITES = (
    "insert", "update", "delete", "merge", "truncate", "grant", "revoke", "comment",
    "refresh", "vacuum", "analyze", "cluster", "reindex", "call", "do", "import", "security", "reassign", "attach",
    "install", "load", "pragma",
)  # fmt: skip
_TWO_WORDS = {"time": "timezone", "transaction": "transaction_isolation"}


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT; ``tokens`` as written."""

    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Show:
    setting: str


@dataclass(frozen=True, slots=True)
class Set:
    """``value`` None: back to the default; ``setting`` "all": all of them; ``local``: until the transaction ends."""

    setting: str
    value: str | None
    tag: str = "SET"
    local: bool = False


@dataclass(frozen=True, slots=True)
class Begin:
    tag: str = "BEGIN"


@dataclass(frozen=True, slots=True)
class End:
    tag: str


@dataclass(frozen=True, slots=True)
class Savepoint:
    """SAVEPOINT, RELEASE and ROLLBACK TO, whose ``tag`` is ROLLBACK."""

    tag: str
    name: str

    @property
    def back(self) -> bool:
        return self.tag == "ROLLBACK"


@dataclass(frozen=True, slots=True)
class Declare:
    name: str
    query: Query
    hold: bool
    binary: bool


@dataclass(frozen=True, slots=True)
class Fetch:
    """``count`` None: all that is left. ``move``: without the rows."""

    name: str
    count: int | None
    move: bool


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """``name`` None: all."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Deallocate:
    name: str | None


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The changes of a view, as they are published. ``contents``: begin with what it holds now."""

    view: str
    contents: bool = True
    progress: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY (...) TO STDOUT. ``form``: text, csv or binary."""

    source: Query | Subscribe
    form: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False


@dataclass(frozen=True, slots=True)
class Nothing:
    """A command that succeeds and does nothing here."""

    tag: str


@dataclass(frozen=True, slots=True)
class Explain:
    query: Query


Statement = (
    Query | Show | Set | Begin | End | Savepoint | Declare | Fetch | CloseCursor | Deallocate | Subscribe | Copy
    | Nothing | Explain | Change | Look
)  # fmt: skip


def split(text: str) -> list[list[Token]]:
    """The statements of a text. Raises ``sql.syntax``, and ``sql.refused`` where it is too long to be read."""
    if len(text) > TEXT_CHARS:
        raise HeadraceError(
            "sql.refused", f"a text of {len(text):,} characters is not read",
            next=f"at most {TEXT_CHARS:,} are; values may be given as parameters",
        )  # fmt: skip
    return lexer.split(text)


def read(statement: Sequence[Token]) -> Statement:
    """A statement's tokens. Raises ``sql.syntax``, ``sql.refused``, ``query.read_only``."""
    words = Words(statement)
    first = words.peek()
    if first in QUERIES:
        return Query(tuple(statement))
    if (found := definitions.read(statement)) is not None:
        return found
    if first in _WRITES:
        raise _read_only(first.upper())
    words.take()
    reader = _READERS.get(first)
    if reader is None:
        raise HeadraceError("sql.syntax", f"'{first}' begins no statement that is known here", next="SELECT ...")
    return reader(words)


def _show(words: Words) -> Statement:
    return Show(_setting(words))


def _setting(words: Words) -> str:
    name = words.token().name.lower()
    if name == "session" and words.accept("authorization"):
        return "session_authorization"
    while words.accept("."):
        name += "." + words.token().name
    if name in _TWO_WORDS and words.accept("zone", "isolation"):
        words.accept("level")
        return _TWO_WORDS[name]
    return name


def _set(words: Words) -> Statement:
    local = words.accept("local")
    session = not local and words.accept("session")
    if words.accept("transaction") or (session and words.accept("characteristics")):
        return _mode(words, Nothing("SET"))
    name = "session_authorization" if session and words.accept("authorization") else _setting(words)
    words.accept("=", "to")
    values = [token.value if token.kind == "string" else token.text for token in words.rest() if token.kind != "space"]
    value = "".join(values)
    return Set(name, None if value.lower() == "default" else value, local=local)


def _mode(words: Words, statement: Statement) -> Statement:
    """The modes of a transaction: it is READ ONLY and of one snapshot in any case."""
    while word := words.take():
        if word == "read" and words.accept("write"):
            raise _read_only("READ WRITE")
    return statement


def _reset(words: Words) -> Statement:
    return Set("all" if words.accept("all") else _setting(words), None, "RESET")


def _begin(words: Words) -> Statement:
    words.accept("work", "transaction")
    while word := words.take():
        if word == "read" and words.accept("write"):
            continue  # what would write is refused itself; pools ask for it by habit
    return Begin()


def _start(words: Words) -> Statement:
    words.need("transaction")
    _begin(words)
    return Begin("START TRANSACTION")


def _commit(words: Words) -> Statement:
    words.accept("work", "transaction")
    return End("COMMIT")


def _rollback(words: Words) -> Statement:
    words.accept("work", "transaction")
    if words.accept("to"):
        words.accept("savepoint")
        return Savepoint("ROLLBACK", words.name()[:NAME])
    return End("ROLLBACK")


def _savepoint(words: Words) -> Statement:
    return Savepoint("SAVEPOINT", words.name()[:NAME])


def _release(words: Words) -> Statement:
    words.accept("savepoint")
    return Savepoint("RELEASE", words.name()[:NAME])


def _declare(words: Words) -> Statement:
    name, binary = words.name(), False
    while words.peek() != "cursor":
        word = words.token().name
        binary = binary or word == "binary"
    words.need("cursor")
    hold = words.accept("with")
    if hold or words.accept("without"):
        words.need("hold")
    words.need("for")
    query = read(words.rest())
    if not isinstance(query, Query):
        raise HeadraceError("sql.syntax", "a cursor is declared for a SELECT")
    return Declare(name, query, hold, binary)


def _fetch(words: Words) -> Statement:
    return _moving(words, move=False)


def _move(words: Words) -> Statement:
    return _moving(words, move=True)


def _moving(words: Words, *, move: bool) -> Statement:
    count: int | None = 1
    if words.accept("forward"):
        count = _count(words) if words.peek().isdigit() or words.peek() == "all" else 1
    elif words.peek() == "all" or words.peek().isdigit():
        count = _count(words)
    elif words.peek() in ("backward", "prior", "first", "last", "absolute", "relative", "-"):
        raise HeadraceError("sql.refused", "a cursor only goes forward", next="FETCH FORWARD n FROM name")
    else:
        words.accept("next")
    words.accept("from", "in")
    return Fetch(words.name(), count, move)


def _count(words: Words) -> int | None:
    word = words.take()
    return None if word == "all" else int(word)


def _close(words: Words) -> Statement:
    return CloseCursor(None if words.accept("all") else words.name())


def _deallocate(words: Words) -> Statement:
    words.accept("prepare")
    return Deallocate(None if words.accept("all") else words.name())


def _subscribe(words: Words) -> Statement:
    words.accept("to")
    view, contents, progress = words.name(), True, False
    if words.accept("with"):
        words.need("(")
        while not words.accept(")"):
            option = words.token().name.lower()
            words.accept("=")
            given = True if words.peek() in (",", ")") else words.token().name.lower() in ("true", "on", "1")
            if option not in ("snapshot", "progress"):
                raise HeadraceError(
                    "sql.syntax", f"SUBSCRIBE has no option '{option}'", next="options: SNAPSHOT, PROGRESS"
                )
            contents, progress = (given, progress) if option == "snapshot" else (contents, given)
            words.accept(",")
    words.end()
    return Subscribe(view, contents, progress)


def _copy(words: Words) -> Statement:
    source: Query | Subscribe
    if words.peek() == "(":
        inner = read(words.parenthesized())
        if not isinstance(inner, Query | Subscribe):
            raise HeadraceError("sql.syntax", "COPY takes a SELECT or a SUBSCRIBE")
        source = inner
    else:
        name = words.name()
        columns = words.parenthesized() if words.peek() == "(" else ()
        shown = ", ".join(_quoted(token.name) for token in columns if token.kind in ("word", "quoted"))
        source = Query(tuple(lexer.tokens(f"FROM {_quoted(name)} SELECT {shown or '*'}")))
    if words.need("to", "from") == "from":
        raise _read_only("COPY FROM")
    if words.take() != "stdout":
        raise HeadraceError("sql.refused", "COPY writes to STDOUT alone", next="COPY (SELECT ...) TO STDOUT")
    return _copy_options(words, source)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _copy_options(words: Words, source: Query | Subscribe) -> Copy:
    given: dict[str, str] = {}
    words.accept("with")
    words.accept("(")
    while option := words.take().lower():
        if option in (",", ")"):
            continue
        if option in ("csv", "binary", "text"):
            given["format"] = option
        elif option == "header":
            given["header"] = "true" if words.peek() in (",", ")", "", "csv") else words.token().name.lower()
        elif option in ("format", "delimiter", "null", "encoding", "quote", "escape"):
            words.accept("as")
            token = words.token()
            given[option] = token.value if token.kind == "string" else token.name
        else:
            raise HeadraceError("sql.refused", f"COPY has no option '{option}' here")
    if given.get("quote", '"') != '"' or given.get("escape", '"') != '"':
        raise HeadraceError("sql.refused", 'COPY quotes with " alone')
    form = given.get("format", "text").lower()
    if form not in ("text", "csv", "binary"):
        raise HeadraceError("sql.refused", f"COPY has no format '{form}'", next="FORMAT text, csv or binary")
    delimiter = given.get("delimiter", "," if form == "csv" else "\t")
    if len(delimiter) != 1 or delimiter in '\r\n"\\':
        raise HeadraceError("sql.refused", "COPY's delimiter is a single character")
    null = given.get("null", "" if form == "csv" else "\\N")
    return Copy(source, form, delimiter, null, given.get("header") in ("true", "on", "1", "match"))


def _discard(words: Words) -> Statement:
    what = words.need("all", "plans", "sequences", "temp", "temporary")
    return Nothing(f"DISCARD {'TEMP' if what == 'temporary' else what.upper()}")


def _explain(words: Words) -> Statement:
    rest = words.parenthesized() and words.rest() if words.peek() == "(" and _has_options(words) else words.rest()
    inner = list(rest)
    while inner and (inner[0].kind == "space" or inner[0].name in ("analyze", "verbose")):
        inner.pop(0)
    query = read(inner)
    if not isinstance(query, Query):
        raise HeadraceError("sql.syntax", "EXPLAIN takes a SELECT")
    return Explain(query)


def _has_options(words: Words) -> bool:
    return any(token.name in ("analyze", "verbose", "costs", "buffers", "format") for token in words.tokens[:4])


def _read_only(what: str) -> HeadraceError:
    return HeadraceError(
        "query.read_only", f"{what} is not taken: here is read and nothing else",
        why="tables are fed by their sources, and views follow them",
        next="CREATE, DROP and SHOW of a SOURCE, VIEW or SINK change what there is",
    )  # fmt: skip


_READERS: dict[str, Callable[[Words], Statement]] = {
    "show": _show, "set": _set, "reset": _reset, "begin": _begin, "start": _start, "commit": _commit, "end": _commit,
    "rollback": _rollback, "abort": _rollback, "savepoint": _savepoint, "release": _release, "declare": _declare,
    "fetch": _fetch, "move": _move, "close": _close, "deallocate": _deallocate, "subscribe": _subscribe, "copy": _copy,
    "explain": _explain, "discard": _discard, "listen": lambda words: Nothing("LISTEN"),
    "unlisten": lambda words: Nothing("UNLISTEN"), "lock": lambda words: Nothing("LOCK TABLE"),
    "checkpoint": lambda words: Nothing("CHECKPOINT"),
}  # fmt: skip
