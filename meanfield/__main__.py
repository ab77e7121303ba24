"""`python -m meanfield`: the command line."""

import sys

from meanfield.cli import main

if __name__ == "__main__":
    sys.exit(main())
