"""Runs, their intake, and what people and processes ask or say of them."""
