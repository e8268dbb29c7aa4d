"""The clock as an input: a relation of one row, the last tick, which comes through the log like any other."""

from __future__ import annotations

from headrace.model.schema import Column, Relation

# No table or view can have this name.
CLOCK = Relation("headrace:clock", (Column("one", "int", False), Column("now", "timestamp", False)), ("one",))
NOW = CLOCK.names.index("now")
