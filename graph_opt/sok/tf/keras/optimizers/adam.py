"""Keras' Adam, which updates tables as any variable."""

from __future__ import annotations

from graph_opt.compat import tf

Adam = tf.keras.optimizers.legacy.Adam
