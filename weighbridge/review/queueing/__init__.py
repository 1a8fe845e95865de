"""The work behind `ReviewQueue`, a module for each kind of act, inside a transaction."""
