"""Beyond pairs: any number of blanks, words of several tokens, whole sentences, and generation.

- `table`, `solver`, `grid`: the Arnold-Gokhale joint of n blanks, on a grid of candidates;
- `chain`, `pairs`: blocks of one or two blanks filled one after the other, over every token;
- `tailed`: a grid with a tail, over every token too;
- `choose`: which of the two a text with many blanks gets, and why;
- `words`: blanks that hold whole words of one to three tokens;
- `scores`, `lengths`, `files`: the log-probability of sentences;
- `sampling`: drawing by the chain, by Gibbs and by Metropolis-Hastings, with diagnostics;
- `benchmarks`: what all this is worth on grammar, on blanks and on mutants.
"""
