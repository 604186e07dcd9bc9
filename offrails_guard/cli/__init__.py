"""The command line of the guard: `offrails-guard`, and two verbs of `offrails`."""
