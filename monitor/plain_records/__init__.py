"""Objects and all that they refer to, as versioned plain records, and back in another process."""
