"""A PostgreSQL under pgbench, followed while the product is killed; the views in a second database are proved."""
