"""The ordered, durable sequence of transactions: embedded segments, one writer, many readers."""
