"""What an operator changes through the API."""
