"""Resumable runs: a claimed directory, append-only records, a cluster, what it cost."""
