"""What every task is made of: its card (data, no torch), its desk (the work) and the table of all cards; and what
works from these: recipes, training, comparison, evaluation."""
