"""apply: the running project takes the definitions as they are in the folder now."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from headrace.catalog.project import read
from headrace.control.followed import followed
from headrace.control.running import Progress, Running
from headrace.control.socket import ClientGone


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The changes made, as ``plan`` lists them. Goes on to the end when the caller leaves."""
    project = read(running.path)
    with contextlib.suppress(ClientGone):
        progress({"text": "applying"})
    with followed(running, progress):
        return running.pipeline.apply(project)
