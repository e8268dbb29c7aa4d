"""PostgreSQL logical replication as a source."""
