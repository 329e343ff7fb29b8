"""Which problems are chosen, and which solutions of each: matrices and scores in, indices out."""
