"""The whole chain with a real model: curation, fine-tuning, merging, sampling and grading."""
