"""What can be set of members of outputs that become files."""
