"""Prints how code that loads into this Python's TensorFlow is built, for CMakeLists.txt.

Three lines: the include directory, the other compile flags, the link flags.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

include = "-I" + tf.sysconfig.get_include()
flags = [flag for flag in tf.sysconfig.get_compile_flags() if flag != include]
print(tf.sysconfig.get_include())
print(" ".join(flags))
print(" ".join(tf.sysconfig.get_link_flags()))
