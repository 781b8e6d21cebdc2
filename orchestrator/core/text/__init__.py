"""How values are written and read as text: durations, times, names, counted nouns, JSON, what errors have in common."""
