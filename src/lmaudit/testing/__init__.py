"""For those who extend lmaudit: tiny models, and the contract suites that every optimiser has to pass."""
