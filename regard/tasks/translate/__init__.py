"""Any text to text."""
