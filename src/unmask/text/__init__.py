"""Texts, tokens and words; from here on everything is ids."""
