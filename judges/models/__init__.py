"""Models that answer judges: the protocol, the client of OpenAI-compatible endpoints, budget, prices and cache."""
