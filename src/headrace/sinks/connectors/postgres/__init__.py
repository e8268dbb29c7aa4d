"""The PostgreSQL sink: a whole step of all views in one transaction."""
