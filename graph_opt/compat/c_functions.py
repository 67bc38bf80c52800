"""TensorFlow's C functions for graphs and sessions."""

from __future__ import annotations

try:
    from tensorflow.python.client import pywrap_tf_session as c_api
except ImportError:  # TensorFlow 1
    from tensorflow.python import pywrap_tensorflow as c_api

__all__ = ["c_api"]
