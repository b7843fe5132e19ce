"""What papers share beside attention."""
