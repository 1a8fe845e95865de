"""From audits to guarantees: the coin, samples, certificates, alarms, and all of it in numbers."""
