"""DeepRec's `tensorflow.core.framework.embedding`."""
