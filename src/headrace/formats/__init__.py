"""Bytes to rows and back: one file a format, one file a type system; no connectors here."""
