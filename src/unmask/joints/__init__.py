"""Joint distributions over blanks: the contract, one file for each construction, and their registry.

Nothing here knows a model: a joint is made from tables of conditionals, whatever they come from.
"""
