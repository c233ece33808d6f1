"""The doors: how people and agents reach the core.  Nothing is re-exported: import the door that you need.

Each door imports what it needs lazily; the core imports none of them.
"""
