"""The service: built from its settings, started and stopped."""
