"""The forms and confirmations of what pages can ask for, as HTML; `api.actions` decides what they mean."""
