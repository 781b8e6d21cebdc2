"""What any interface can answer or do wrong: refusals, problem documents, faults, counters, ids."""
