"""Masked language models: opening checkpoints, running them, the embedded one."""
