"""The admin listener: the API, its streams, and the session view."""
