"""What spans of models hold: requests for calls, results of calls, and whether a conversation begins."""
