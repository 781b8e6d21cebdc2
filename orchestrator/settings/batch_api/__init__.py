"""What can be set of the Batch API."""
