"""PostgreSQL's protocol for a running project. Record: docs/decisions/0026-serving.md."""
