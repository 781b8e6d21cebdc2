"""One endpoint as this process knows it: health, learned times, limits."""
