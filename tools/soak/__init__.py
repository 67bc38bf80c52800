"""Trainings on a cluster that loses its tasks."""
