"""`python -m weighbridge`."""

from weighbridge.cli import main

main()
