"""What the configuration file says of single things, each in a table of its own."""
