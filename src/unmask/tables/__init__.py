"""Tables of conditionals, dense, grouped or lazy; nothing here has heard of a model."""
