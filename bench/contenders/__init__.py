"""The engines that are measured side by side, each in a process of its own.

`python -m bench.contenders NAME` reads a job as JSON from standard input and ends with one JSON
object, its report. Nothing heavy, and nothing of weighbridge, is imported before the clock runs:
what the peers would not import by themselves must not change how they start, or how torch waits.
"""
