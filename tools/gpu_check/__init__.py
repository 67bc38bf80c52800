"""Builds the CUDA kernels of ops_src/cuda without TensorFlow, checks them and times them."""
