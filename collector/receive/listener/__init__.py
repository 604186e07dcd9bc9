"""A listener: its address, its certificates, its connections."""
