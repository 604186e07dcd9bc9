"""The kinds of plain records in snapshots, by the part of the service that they are of."""
