"""A process of the user that has imported everything, and answers commands in place of those that would have to."""
