"""Judging: the specs of a session, its calls judged, its deadlines, and the sums that follow."""
