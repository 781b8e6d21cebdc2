"""Group commit, access to the database, and writes that no other room has to itself."""
