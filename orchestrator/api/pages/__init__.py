"""What each page shows, as values: composed of what the other rooms read."""
