"""`offrails harness`: its verbs, one a module."""
