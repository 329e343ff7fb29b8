"""`python -m benchmarks.loop_real`; see run.py."""

import sys

from benchmarks.loop_real.run import main

if __name__ == "__main__":
    sys.exit(main())
