"""How messages reach those who are told: what is owed, sent, and sent again; and how commands of people are begun."""
