"""Each thing that can be set: its field, its flag, its text form, where it was set; and the requests made of them."""
