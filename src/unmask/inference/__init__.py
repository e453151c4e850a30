"""From a text and a model to a joint: queries, conditionals, the choice of the method, scores, samplers."""
