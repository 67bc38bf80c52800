"""Which compiled op libraries there are: one for each release of TensorFlow."""

from __future__ import annotations

import glob
import os
import re
from typing import List

NAME = "libgraph_opt_ops.tf{}.so"
SERVING_NAME = "libgraph_opt_serving.tf{}.so"
FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ops")


def built_releases(folder: str) -> List[str]:
    """The releases of TensorFlow that a folder has libraries for, oldest first.

    Example:
      >>> built_releases(FOLDER)
      ['2.15']
    """
    paths = "\n".join(glob.glob(os.path.join(glob.escape(folder), NAME.format("*"))))
    found = re.findall(r"tf([0-9.]+)\.so$", paths, re.MULTILINE)
    return sorted(found, key=lambda release: [int(number) for number in release.split(".")])
