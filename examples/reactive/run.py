"""The server of a page that follows a view: it gives out the page, and passes the view's changes on.

python -m examples.reactive.run --project shop --view revenue [--port 8000]

The token of the API stays here: a browser sees one view and nothing else.
"""

from __future__ import annotations

import argparse
import http.client
import json
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

PAGE = Path(__file__).with_name("page")
PIECE_BYTES = 64 << 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", type=Path, default=Path())
    parser.add_argument("--view", required=True)
    parser.add_argument("--port", type=int, default=8000, help="0 for a free one")
    chosen = parser.parse_args()
    handler = partial(Follower, chosen.project / ".headrace", chosen.view)
    with ThreadingHTTPServer(("127.0.0.1", chosen.port), handler) as server:
        print(f"{chosen.view} at http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


class Follower(SimpleHTTPRequestHandler):
    """`/changes` is the view's stream, everything else a file of the page."""

    def __init__(self, kept: Path, view: str, *of_server: object) -> None:
        self._kept, self._view = kept, view
        super().__init__(*of_server, directory=str(PAGE))  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path != "/changes":
            super().do_GET()
            return
        status, kind, pieces = self._changes()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        try:
            for piece in pieces:
                self.wfile.write(piece)
        except (BrokenPipeError, ConnectionResetError):
            return  # the page was closed

    def _changes(self) -> tuple[int, str, Iterator[bytes]]:
        """Where the API listens is read each time: after a restart it may be elsewhere."""
        address = urlsplit(json.loads((self._kept / "api.json").read_text())["url"])
        headers = {"Authorization": f"Bearer {(self._kept / 'tokens/api').read_text().strip()}"}
        if seen := self.headers.get("Last-Event-ID"):
            headers["Last-Event-ID"] = seen
        connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port)
        connection.request("GET", f"/api/views/{quote(self._view)}/changes", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], iter(partial(answer.read1, PIECE_BYTES), b"")

    def log_message(self, *_: object) -> None:
        """Nothing: the page is the output."""


if __name__ == "__main__":
    main()
