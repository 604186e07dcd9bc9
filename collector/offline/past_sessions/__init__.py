"""Past sessions for other programs: as lines, tables and frames, with the labels that people gave."""
