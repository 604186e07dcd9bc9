"""The process about itself: its log, its counters, its clock; and the redaction of what it shows."""
