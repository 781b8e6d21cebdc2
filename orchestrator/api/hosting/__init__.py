"""The one driver of an engine: takes a ledger's lock or follows who has it, starts the engine and stops it."""
