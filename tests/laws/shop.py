"""The tables that histories of most operators use: few keys, so that changes meet; values where SQL is subtle."""

from __future__ import annotations

from decimal import Decimal

from histories import INF, NAN, Table

ITEMS = Table(
    "items",
    {"id": "int", "k": "int", "s": "string", "n": "bigint", "f": "double", "d": "decimal(12,2)"},
    {
        "id": range(5),
        "k": (None, 0, 1, 2),
        "s": (None, "", "a", "b", "é"),
        "n": (None, 0, 1, -1, 7, 2**60, -(2**60)),
        "f": (None, 0.0, -0.0, NAN, INF, -INF, 0.1, 1e16, -1e16, 1.5, 5e-324),
        "d": (None, Decimal("0.00"), Decimal("1.50"), Decimal("-2.00"), Decimal("9999999999.99")),
    },
    ("id",),
)

# Another scale of the decimal, so that keys equal by value are stored apart.
PARTS = Table(
    "parts",
    {"id": "int", "k": "int", "s": "string", "f": "double", "d": "decimal(14,3)"},
    {
        "id": range(4),
        "k": (None, 0, 1, 2),
        "s": (None, "", "a", "c"),
        "f": (None, 0.0, -0.0, NAN, 1.5),
        "d": (None, Decimal("0.000"), Decimal("1.500"), Decimal("1.501")),
    },
    ("id",),
)

BAG = Table("bag", {"k": "int", "s": "string"}, {"k": (None, 0, 1), "s": (None, "a", "b")})
