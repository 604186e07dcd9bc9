"""Agents that the bench runs: those without a model, and any OpenAI-compatible endpoint."""
