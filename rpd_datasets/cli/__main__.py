"""`python -m rpd_datasets.cli`, for where the `rpd` script is not on the path."""

import sys

from rpd_datasets.cli import main

sys.exit(main())
