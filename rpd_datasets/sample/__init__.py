"""The packaged sample: 27 problems with 6 solutions each, written for this project."""
