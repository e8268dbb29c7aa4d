"""The process that the killed ones are forks of: it has loaded everything and started nothing. JSON lines in and out.

A request is ``{"world": {...}, "at": n}``, the answer the ``killed_at.Run`` of it. With ``"upto"`` the process only
writes to the sink, up to that transaction, and at its n-th call (of the name ``only``, if that is given) it is held: the answer is then the call's name, and
whatever line comes lets it go on to its ``Run``. With ``"reader"``, a folder, it reads a consumer group there. With ``"disk"`` nothing
is killed: a ``refused_at.Disk`` refuses calls.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork


def serve() -> None:
    from dataclasses import asdict

    import control_plane
    import group_reader
    import killed_at
    import old_writer
    import refused_at

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the killed ones print is for people

    def tell(answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    def held(call: str) -> None:
        tell(call)
        sys.stdin.readline()

    while line := sys.stdin.readline():
        request = json.loads(line)
        if "disk" in request:
            disk = refused_at.Disk(request["world"]["folder"], **request["disk"])
            run = killed_at.run(partial(refused_at.work, control_plane.World(**request["world"])), met=disk.met)
            tell({"status": run.status, "seen": disk.seen, "refused": disk.refused})
            continue
        if "reader" in request:
            tell(asdict(killed_at.run(partial(group_reader.work, request["reader"]), request["at"])))
            continue
        world, upto = control_plane.World(**request["world"]), request.get("upto")
        if upto is None:
            tell(asdict(killed_at.run(partial(control_plane.work, world), request["at"])))
        else:
            work = partial(old_writer.write, world, upto)
            tell(asdict(killed_at.run(work, request["at"], only=request["only"], held=held)))


if __name__ == "__main__":
    serve()
