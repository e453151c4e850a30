"""Training masked language models."""
