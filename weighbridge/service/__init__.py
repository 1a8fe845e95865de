"""The review page: people judge what a machine may not decide alone, in a browser or by JSON."""
