"""What a service sent: agents, tools, names that are nearly a spec's."""
