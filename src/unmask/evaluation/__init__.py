"""Measuring joints against the model's own conditionals."""
