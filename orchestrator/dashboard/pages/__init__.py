"""One module for each page: its path, its template, and what of `api` it shows."""
