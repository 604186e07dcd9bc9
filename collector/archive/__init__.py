"""The archive: sessions of the last days in a SQLite file, for whoever asks later."""
