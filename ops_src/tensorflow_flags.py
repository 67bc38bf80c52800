"""Prints how code that loads into this Python's TensorFlow is built, for CMakeLists.txt.

Three lines: the include directory, the other compile flags, the link flags. Among the compile flags
is TensorFlow's release, 2015 for 2.15, as not every release has it in its headers.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

include = "-I" + tf.sysconfig.get_include()
flags = [flag for flag in tf.sysconfig.get_compile_flags() if flag != include]
major, minor = (int(part) for part in tf.__version__.split(".")[:2])
flags.append("-DGRAPH_OPT_TENSORFLOW={}".format(major * 1000 + minor))
print(tf.sysconfig.get_include())
print(" ".join(flags))
print(" ".join(tf.sysconfig.get_link_flags()))
