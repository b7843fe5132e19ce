"""Images in classes."""
