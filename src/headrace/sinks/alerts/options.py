"""What every sink that tells of changes may be told about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from headrace.sinks.alerts.happened import KINDS, Kind

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_RATE = re.compile(rf"(\d+) ?(?:/|per) ?({'|'.join(_SECONDS)})")
_TIME = re.compile(r"(\d+) ?(s|m|h|d)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Rate:
    """At most ``times`` in any ``seconds``."""

    times: int
    seconds: int


def _rate(value: Any) -> Any:
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or int(found[1]) < 1:
        raise ValueError(f"'at_most' must be a number a time, as 10/hour, not {value!r:.60}")
    return Rate(int(found[1]), _SECONDS[found[2]])


def _seconds(value: Any) -> Any:
    found = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or int(found[1]) < 1:
        raise ValueError(f"'retry_for' must be a time, as 30m, 12h or 3d, not {value!r:.60}")
    return int(found[1]) * _UNITS[found[2]]


def _kinds(value: Any) -> Any:
    return KINDS if value == "both" else (value,) if isinstance(value, str) else value


class AlertOptions(BaseModel):
    """Keys of ``sinks/NAME.yaml`` that all such sinks have."""

    # Which changes are told: enter, leave, change, several of them in brackets, or both, which is all.
    on: Annotated[tuple[Kind, ...], BeforeValidator(_kinds)] = Field(
        default=KINDS, min_length=1, examples=[["enter", "leave"]]
    )
    per: Literal["delivery", "row"] = "delivery"  # a message for all that a delivery says of a view, or for each row
    initial: Literal["skip", "send"] = "skip"  # contents that a view comes with: not told, or told as entered
    at_most: Annotated[Rate | None, BeforeValidator(_rate)] = None  # what is beyond waits for its turn
    retry_for: Annotated[int | None, BeforeValidator(_seconds)] = (
        None  # seconds; then it is a dead letter. None: always
    )
    timeout_s: float = Field(default=10.0, gt=0, le=20)  # of one attempt
    ca: str | None = None  # a file of certificates that the receiver's may be signed by
