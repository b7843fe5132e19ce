"""An image beside labelled examples, and how much it looked at each."""
