"""One module for each noun about runs."""
