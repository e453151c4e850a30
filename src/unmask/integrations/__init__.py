"""unmask inside other people's programs: a pipeline of transformers, a model of lm-evaluation-harness."""
