"""Settings: read, checked, masked for display; specs reloaded while the service runs."""
