"""`python -m collector` is `offrails`."""

import sys

from collector.cli import main

sys.exit(main())
