"""What reads the feed and decides nothing."""
