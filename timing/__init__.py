"""Time: clocks that are handed in by constructor, and the timing wheel."""
