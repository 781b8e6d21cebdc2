"""REST v2/v1 and GraphQL, rate windows, log streams, falling back from one interface to the next."""
