"""PostgreSQL for tests: a real server, of the tests' own, and databases in it."""
