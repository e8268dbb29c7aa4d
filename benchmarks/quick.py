"""A few minutes of everything: the log, bulk steps, work per change. One JSON line a result.

python -m benchmarks.quick
"""

from __future__ import annotations

import subprocess
import sys

PARTS = (
    ("benchmarks.bulk", "--changes", "2000000", "--narrow"),
    ("benchmarks.constant", "--large", "1000000", "--steps", "10"),
)


def main() -> int:
    return max(subprocess.call([sys.executable, "-m", *part]) for part in PARTS)


if __name__ == "__main__":
    sys.exit(main())
