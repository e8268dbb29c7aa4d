"""The DuckDB sink: a whole step of all views in one transaction of a database file."""
