"""`python -m meanfield`: the command line."""

from __future__ import annotations

import sys

from meanfield.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
