"""The nouns: values that pass between rooms. No Spark, no I/O, no imports from other rooms."""
