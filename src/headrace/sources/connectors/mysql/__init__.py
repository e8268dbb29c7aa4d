"""MySQL and MariaDB row-based binary log as a source."""
