"""What kind of device the tests run on; what differs on one is asked here."""

from __future__ import annotations

import lamina as lm

ON_CUDA = lm.devices()[0].platform == "cuda"
