"""Workers in this process and processes of their own."""
