"""A proxy before a server of the Model Context Protocol, which asks for each call of a tool."""
