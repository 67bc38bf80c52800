"""HybridBackend's scopes, for scripts that say `import hybridbackend.tensorflow as hb`."""
