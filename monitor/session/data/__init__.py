"""What a session keeps of earlier calls for rules over data."""
