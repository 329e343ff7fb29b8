"""The packaged labelled sets: `controlled`, 48 problems, and `answer_pairs`, 986 judged answers."""
