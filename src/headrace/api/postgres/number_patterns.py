"""Numbers as PostgreSQL's ``to_char`` shows them by a pattern of digits: ``FM999,990.00``, ``S9999``, ``99.9PR``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

_TOKEN = re.compile(
    r'"(?P<quoted>(?:[^"\\]|\\.)*)"?|\\(?P<escaped>.)|(?P<word>FM|EEEE|MI|PL|SG|PR|RN|TH|th|[90.,DGSVLBC])|(?P<plain>.)',
    re.DOTALL | re.IGNORECASE,
)
_EXACT = Context(prec=1000, rounding=ROUND_HALF_UP)  # digits of the widest number that is shown
_SIGNS = ("S", "MI", "PL", "SG", "PR")


@dataclass(frozen=True, slots=True)
class _Pattern:
    """``parts``: (word, "") or ("", text as it is); places of digits are counted over the whole numbers' digits."""

    parts: tuple[tuple[str, str], ...]
    whole: int
    fraction: int
    first_zero: int  # the place of the first 0 among the digits of the whole number; ``whole`` where there is none
    last_zero: int  # how many digits of the fraction are kept though they end in zeros
    blanks: bool  # without FM
    sign: str  # the word that shows it, or ""


def shown(number: Decimal, pattern: str) -> str:
    """Raises ``NotImplementedError`` for what a pattern has beyond digits, signs, groups and a point."""
    form = _read(pattern)
    if not number.is_finite():
        raise NotImplementedError(f"to_char of {number}")
    rounded = abs(number).quantize(Decimal((0, (1,), -form.fraction)), context=_EXACT)
    digits, _, fraction = f"{rounded:f}".partition(".")
    digits = digits.lstrip("0")
    if not digits and not form.fraction:
        digits = "0"
    if len(digits) > form.whole or not form.whole:
        digits, fraction = "#" * form.whole, "#" * form.fraction
    elif not form.blanks:
        fraction = fraction[: max(form.last_zero, len(fraction.rstrip("0")))]
        digits = digits or ("" if fraction else "0")
    return _written(form, digits, fraction, number < 0 and bool(rounded))


def ordinal(number: int, word: str) -> str:
    """``st`` of 1, in the case of ``word``."""
    last = "th" if 10 <= number % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return last.upper() if word.isupper() else last


@lru_cache(maxsize=256)
def _read(pattern: str) -> _Pattern:
    parts = list[tuple[str, str]]()
    for found in _TOKEN.finditer(pattern):
        word = found["word"] or ""
        word = word if word == "th" else {".": "D", ",": "G"}.get(word, word.upper())
        if word in ("EEEE", "RN", "V", "L", "B", "C"):
            raise NotImplementedError(f"'{word}' in a pattern of to_char for numbers")
        quoted = re.sub(r"\\(.)", r"\1", found["quoted"] or "")
        parts.append((word, quoted + (found["escaped"] or "") + (found["plain"] or "")))
    words = [word for word, _ in parts]
    signs = [word for word in words if word in _SIGNS]
    if words.count("D") > 1 or len(signs) > 1:
        raise NotImplementedError(f"several points or signs in '{pattern}'")
    point = words.index("D") if "D" in words else len(words)
    whole = [word for word in words[:point] if word in ("9", "0")]
    fraction = [word for word in words[point:] if word in ("9", "0")]
    return _Pattern(
        tuple(part for part in parts if part[0] != "FM"), len(whole), len(fraction),
        whole.index("0") if "0" in whole else len(whole),
        len(fraction) - fraction[::-1].index("0") if "0" in fraction else 0, "FM" not in words, "".join(signs),
    )  # fmt: skip


def _written(form: _Pattern, digits: str, fraction: str, negative: bool) -> str:
    begins = min(form.whole - len(digits), form.first_zero)  # the place of the first digit that is shown
    found, place, begun, after = list[str](), 0, False, False
    words = [word for word, _ in form.parts]
    leading = {"S": "-" if negative else "+", "PR": "<" if negative else " "}.get(form.sign)
    if form.sign == "S" and any(word in ("9", "0") for word in words[: words.index("S")]):
        leading = ""  # it stands at the end
    elif form.sign in ("", "PL"):
        leading = "-" if negative else " "
    leading = (leading or "").strip() if not form.blanks else leading or ""
    for number, (word, text) in enumerate(form.parts):
        if word in ("9", "0") and not after:
            if place == begins:
                found.append(leading)
                begun = True
            if place < begins:
                found.append(" " if form.blanks else "")
            else:
                found.append(digits.rjust(form.whole, "0")[place])
            place += 1
        elif word in ("9", "0"):
            found.append(fraction[:1])
            fraction = fraction[1:]
        elif word == "G":
            found.append("," if begun else " " if form.blanks else "")
        elif word == "D":
            if not begun:
                found.append(leading)
                begun = True
            found.append(".")
            after = True
        elif word in ("TH", "th"):
            found.append("" if negative or after or "#" in digits else ordinal(int(digits or 0), word))
        elif word in _SIGNS:
            found.append(_sign(word, negative, form, number, words))
        else:
            found.append(text)
    return "".join(found)


def _sign(word: str, negative: bool, form: _Pattern, number: int, words: list[str]) -> str:
    if word == "S":
        before = any(each in ("9", "0") for each in words[:number])
        return ("-" if negative else "+") if before else ""
    shown = {"MI": "-" if negative else " ", "PL": " " if negative else "+", "SG": "-" if negative else "+",
             "PR": ">" if negative else " "}[word]  # fmt: skip
    return shown if form.blanks else shown.strip()
