"""REST v1, REST v2 and GraphQL over these."""
