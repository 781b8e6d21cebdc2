"""Reads for people, audits and upkeep; decides nothing."""
