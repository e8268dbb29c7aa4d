"""HTTP push: transactions as JSON, answered with the commit number once the log has them."""
