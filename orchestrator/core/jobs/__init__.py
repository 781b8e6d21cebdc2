"""The life of one job: its states, its steps, its deadlines, and what decides about another try."""
