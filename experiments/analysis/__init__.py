"""What records say: measures, tests, matched costs, and the sentences that may be said of them."""
