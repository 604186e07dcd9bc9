"""Alerts: what one says, how they are grouped, who is paged, how many may be sent."""
