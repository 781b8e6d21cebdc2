"""The filter language: text, tree, match."""
