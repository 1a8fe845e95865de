"""The router: asks the best provider that is up, checks the answer, weighs it, and decides."""
