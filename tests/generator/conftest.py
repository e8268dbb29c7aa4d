"""Generated programs draw their histories as the laws do: `histories` is found beside them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "laws"))
