"""JAX computes on the processor; the programs of tests/stablehlo are exported from it once more, as HLO text."""

import os
import sys
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent.parent / "stablehlo"))
sys.path.insert(0, str(Path(__file__).parent))
