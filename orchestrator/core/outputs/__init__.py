"""Outputs whose members are files: which members, what each file is called, and what a row has in its place."""
