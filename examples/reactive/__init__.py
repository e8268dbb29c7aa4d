"""A page of one's own that follows a view over HTTP."""
