"""Benchmarks of meaning: what scores and joints are worth on grammar, on blanks and on mutants."""
