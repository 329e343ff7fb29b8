"""The whole chain with a pretrained model, on a task of which every strategy can be checked."""
