"""DLRM over Criteo's click logs, a model bound by its dense layers."""
