"""`python -m benchmarks.loop`."""

import os

for _name, _value in (
    ("OMP_NUM_THREADS", "1"),  # one thread for each of two workers
    ("HF_HUB_OFFLINE", "1"),
    ("HF_HUB_DISABLE_TELEMETRY", "1"),
    ("TOKENIZERS_PARALLELISM", "false"),
):
    os.environ[_name] = _value  # before the libraries that read them are imported

import sys

from benchmarks.loop.run import main

# Workers import this module, too, under another name.
if __name__ == "__main__":
    sys.exit(main())
