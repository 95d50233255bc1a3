"""Tests count compiles: what an earlier run left on disk must not change them."""

import os

os.environ["LAMINA_CACHE_DIR"] = ""
