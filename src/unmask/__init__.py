"""unmask: explicit joint distributions from any masked language model."""

__version__ = "0.1.0"
