"""Goal: what the catalogue names is on the disk before it is named: each file, its name, and the name of its folder.

Method: the control plane in a process of its own that writes down what it syncs, by the kernel's name of the descriptor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from proof_report import SEED

OBSERVED = """
import json, os, sys
from pathlib import Path
from headrace.catalog.store import Catalog
import control_plane

synced, missing, seen = set(), [], 0

def noting(sync):
    def noted(file):
        synced.add(os.readlink(f"/proc/self/fd/{file}"))
        sync(file)
    return noted

os.fsync, os.fdatasync = noting(os.fsync), noting(os.fdatasync)
publish = Catalog.publish

def named(paths):
    global seen
    for path in map(Path, paths):
        seen += 1
        missing.extend(str(p) for p in (path, path.parent, path.parent.parent) if str(p) not in synced)

def published(catalog, number, outputs, at):
    named(o.path for o in outputs)
    synced.clear()
    publish(catalog, number, outputs, at)

Catalog.publish = published
status = control_plane.work(control_plane.World(**json.loads(sys.argv[1])))
print(json.dumps([status, seen, missing]))
"""


def test_files_of_a_step_are_on_the_disk_before_it_is_published(tmp_path: Path) -> None:
    here = Path(__file__).parent
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(here.parents[1] / "src"), str(here)])
    world = {"folder": str(tmp_path), "seed": SEED, "transactions": 14, "each": False}
    done = subprocess.run(
        [sys.executable, "-c", OBSERVED, json.dumps(world)], env=os.environ | {"PYTHONPATH": path},
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    status, seen, missing = json.loads(done.stdout.splitlines()[-1])
    assert (status, missing) == (0, [])
    assert seen > 10
