"""How a question reaches the service: connections, their messages, and how long they are waited for."""
