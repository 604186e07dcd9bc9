"""The command line: its options, and what each verb runs."""
