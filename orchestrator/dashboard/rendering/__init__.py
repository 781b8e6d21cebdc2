"""Pages as HTML and as JSON: templates, how figures look, what is answered where there is no page."""
