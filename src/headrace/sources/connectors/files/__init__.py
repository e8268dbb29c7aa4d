"""A folder of files (JSON lines, CSV, Parquet), read once and followed."""
