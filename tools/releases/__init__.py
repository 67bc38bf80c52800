"""`make test-releases`: what runs with each release of TensorFlow."""
