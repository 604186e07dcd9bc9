"""The answer before the call: decisions over HTTP."""
