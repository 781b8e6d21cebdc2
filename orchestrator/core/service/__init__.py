"""What the service says and is told, as values: outcomes of requests, records, health, tokens, addresses."""
