"""The demo's project folder: made from the files in ``template``, with a port that is free."""

from __future__ import annotations

import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from headrace.control import socket as control
from headrace.model.errors import HeadraceError

TEMPLATE = Path(__file__).parent / "template"
SETTINGS = "headrace.yaml"
SOURCE = "sources/shop.yaml"
PORT = "port: 7071"  # as the template has it
VIEWS = ("revenue_by_region", "click_through_rate", "top_products", "customers_without_order")
SINK = "analytics"


@dataclass(frozen=True, slots=True)
class DemoProject:
    """Where the demo's parts find each other."""

    path: Path
    port: int

    @property
    def token_file(self) -> Path:
        """The token that the HTTP source makes at its first start."""
        return self.path / ".headrace" / "tokens" / "shop"

    @property
    def duckdb_file(self) -> Path:
        return self.path / "analytics.duckdb"

    @property
    def up_log(self) -> Path:
        """What `headrace up` says while the screen is the demo's."""
        return self.path / "up.log"


def make(folder: Path, keep: bool) -> DemoProject:
    """The project in ``folder``, made anew unless ``keep``; what an earlier demo left there goes.

    Raises ``HeadraceError``: project.exists for a folder with anything else in it, project.locked when a process
    runs the project.
    """
    folder = folder.resolve()
    settings = (TEMPLATE / SETTINGS).read_text(encoding="utf-8")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not _made_here(folder, settings):
            raise HeadraceError(
                "project.exists",
                f"{folder} is not a folder that the demo made",
                where=str(folder),
                why="the demo begins with an empty project, and deletes only what an earlier demo left",
                next="name an empty folder: `headrace demo --path DIR`",
            )
        if control.running(folder):
            raise HeadraceError(
                "project.locked",
                "a process runs the demo's project already",
                where=str(folder),
                next=f"`headrace stop --project {folder}`, or `headrace demo --path DIR` for another one",
            )
        if not keep:
            shutil.rmtree(folder)
    port = _free_port()
    for source in sorted(path for path in TEMPLATE.rglob("*") if path.is_file()):
        text = source.read_text(encoding="utf-8")
        place = folder / source.relative_to(TEMPLATE)
        if place == folder / SOURCE:
            text = text.replace(PORT, f"port: {port}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return DemoProject(folder, port)


def _made_here(folder: Path, settings: str) -> bool:
    try:
        return (folder / SETTINGS).read_text(encoding="utf-8") == settings
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
