"""From step embeddings to distances: vectors in, matrices out. No model is called here."""
