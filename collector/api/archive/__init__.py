"""The archive behind the API: what goes into it, and what comes back."""
