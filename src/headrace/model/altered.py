"""Changes of tables themselves as an input: a relation whose rows stand in the log at the commits of what they tell."""

from __future__ import annotations

from headrace.model.schema import Column, Relation

# A row: from this commit on ``column`` of the table ``relation`` has no values, or WHOLE: the table has no rows; by
# ``statement``. With no column the table is copied in this commit: it has all that it was announced with, but for what
# other rows of the commit say. No table or view can have this name.
ALTERED = Relation(
    "headrace:altered",
    (Column("relation", "string", False), Column("column", "string", False), Column("statement", "string", False)),
)
WHOLE = "*"
