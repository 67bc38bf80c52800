"""Divides large tables of an unmodified Horovod script among its ranks."""
