"""`python -m offrails_guard`, where the program is not on the PATH."""

import sys

from offrails_guard.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
