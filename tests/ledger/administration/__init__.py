"""What an administrator of a server asks and tells."""
