"""Goal: the page that an installation has is the one of these sources, small, and loads nothing from elsewhere.

Method: the build says the hash of what it was made of, which is added up here without Node; its files are read.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

CONSOLE = Path(__file__).parents[2] / "console"
BUILD = Path(__file__).parents[2] / "src/headrace/api/static"
# As in console/vite.config.js.
SOURCES = ("index.html", "package-lock.json", "package.json", "public", "src", "svelte.config.js", "vite.config.js")
JS_GZIPPED_MOST = 250_000
NAMESPACES = r"http://www\.w3\.org/(?:2000/svg|1999/xhtml|1998/Math/MathML)"


def sources() -> list[str]:
    """Every file that the build is made of, as paths below console/, in order."""
    found = []
    for name in SOURCES:
        path = CONSOLE / name
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        found += [each.relative_to(CONSOLE).as_posix() for each in files]
    return sorted(found)


def test_the_build_is_of_these_sources() -> None:
    added = hashlib.sha256()
    for path in sources():
        added.update(path.encode() + b"\0" + (CONSOLE / path).read_bytes() + b"\0")
    built = json.loads((BUILD / "build.json").read_text())["sources_sha256"]
    assert built == added.hexdigest(), "the sources have changed since: make console"


def test_the_page_is_small() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in BUILD.rglob("*.js")}
    assert sizes
    assert sum(sizes.values()) <= JS_GZIPPED_MOST, sizes


def test_what_the_page_loads_is_there_and_its_own() -> None:
    page = (BUILD / "index.html").read_text()
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert sorted(address.rpartition(".")[2] for address in loaded) == ["css", "js", "svg"]
    assert all(address.startswith("/") and (BUILD / address[1:]).is_file() for address in loaded)
    for path in BUILD.rglob("*.*"):
        named = re.findall(r"https?://[^\s\"'`)]+", path.read_text())
        # Svelte's own errors name its documentation; nothing is loaded from there.
        assert [a for a in named if not re.fullmatch(NAMESPACES + r"|https://svelte\.dev/e/\S*", a)] == [], path


def test_the_page_needs_no_inline_script_or_style() -> None:
    """What `default-src 'self'` would refuse: script in the page, style in an attribute of markup, evaluated text."""
    page = (BUILD / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\sstyle=|\son\w+=", page) == []
    for path in BUILD.rglob("*.js"):
        assert re.findall(r"""<[a-z][^<>]*\sstyle=|\beval\(|new Function\(|javascript:""", path.read_text()) == []


def test_no_source_makes_markup_of_values() -> None:
    components = [CONSOLE / path for path in sources() if path.endswith((".svelte", ".ts"))]
    assert len(components) > 40
    marked = [path.name for path in components if re.search(r"\{@html|innerHTML|insertAdjacentHTML", path.read_text())]
    assert marked == []
