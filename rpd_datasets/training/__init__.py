"""What the training recipes share: recipe files, token sequences, rewards, memory, the push."""
