"""Who may see and do what, and what a request must be to be answered."""
