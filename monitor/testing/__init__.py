"""For whoever writes specs: made-up runs with known verdicts, and doubles of what is outside.

runs.py      accepted runs, and runs with each failure mode, from any spec
sample.py    arguments that match one symbol
regex.py     texts that match a regular expression
doubles.py   a clock, a sink, a monitor for one run
"""
