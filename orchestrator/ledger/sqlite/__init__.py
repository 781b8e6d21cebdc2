"""What only SQLite has: its file and what lies beside it, its connections, its statements."""
