"""Full-text search of views, and stored queries that are matched against their changes."""
