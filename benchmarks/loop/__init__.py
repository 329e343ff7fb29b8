"""The whole loop on a small task: curate, SFT, GRPO, pass@k and output diversity."""
