"""A worker whose kernels are built of the sources in ``BROKEN_KERNELS``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from workbench.engines.cuda import compile as compiling
from workbench.engines.cuda import sources
from workbench.engines.worker import child

if __name__ == "__main__":
    folder = Path(os.environ["BROKEN_KERNELS"])
    sources.kernels_dir = compiling.kernels_dir = lambda: folder
    sys.exit(child.main(sys.argv[1:]))
