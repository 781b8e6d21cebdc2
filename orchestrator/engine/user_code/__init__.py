"""People's steps and checks, in a process of their own."""
