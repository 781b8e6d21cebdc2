"""Flows of simulated worlds whose ledger several engines share, and the people who look after them."""
