"""Everything that the transitions of jobs change in the ledger, each with its event, in one transaction."""
