"""Pulls weights before the step that needs them, and pushes gradients behind their step."""
