"""Language models and labels as judges, and the comparison of distances."""
