"""tantivy, loaded when something is searched: it is an extra."""

from __future__ import annotations

from functools import cache
from typing import Any

from headrace.model.errors import HeadraceError


@cache
def tantivy() -> Any:
    """The module. Raises ``HeadraceError`` (config.library) where it is not installed."""
    try:
        import tantivy as module
    except ModuleNotFoundError as error:
        raise HeadraceError(
            "config.library", "tantivy, which search stands on, is not installed", why=str(error),
            next="pip install 'headrace[search]'",
        ) from error  # fmt: skip
    return module


@cache
def analyzer() -> Any:
    """What makes words of text, as the index does: letters and digits in a row, in lower case, of at most 39 bytes."""
    module = tantivy()
    words = module.TextAnalyzerBuilder(module.Tokenizer.simple())
    return words.filter(module.Filter.remove_long(40)).filter(module.Filter.lowercase()).build()
