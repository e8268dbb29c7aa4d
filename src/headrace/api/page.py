"""The page: the files of its build, and at every other path its first one, which looks at the path itself."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from fastapi import APIRouter, HTTPException, Response

STATIC = Path(__file__).parent / "static"
FIRST = "index.html"
_NAMED_BY_CONTENT = "assets/"  # another content has another name there

router = APIRouter(include_in_schema=False)


@router.api_route("/{path:path}", methods=["GET", "HEAD"])
def page(path: str) -> Response:
    """Needs no token: it holds nothing of the project. It asks the API, which does."""
    kept = path.startswith(_NAMED_BY_CONTENT)
    file = _FILES.get(path)
    if file is None and (kept or path == "api" or path.startswith("api/")):
        raise HTTPException(404)
    content, kind = file or _FILES[FIRST]
    return Response(content, 200, {"Cache-Control": "max-age=31536000, immutable" if kept else "no-cache"}, kind)


def _read() -> dict[str, tuple[bytes, str]]:
    """Path -> (content, type) of what the build holds: nothing else on the disk can be asked for."""
    found = {}
    for file in STATIC.rglob("*"):
        if file.is_file():
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            found[file.relative_to(STATIC).as_posix()] = (file.read_bytes(), kind)
    return found


_FILES = _read()
