"""Names on spans: of sessions, agents, scopes, the spans themselves."""
