"""`python -m benchmarks.loop_strategies`; see run.py."""

import sys

from benchmarks.loop_strategies.run import main

if __name__ == "__main__":
    sys.exit(main())
