"""Group commit and everything that one transaction of steps writes."""
