"""What can be set of single ways into the service."""
