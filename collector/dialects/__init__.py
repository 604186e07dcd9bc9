"""Dialects: how agent frameworks write tool calls, one small table each."""
