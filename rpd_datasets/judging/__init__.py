"""Language models and labels as judges, and the benchmark of distances."""
