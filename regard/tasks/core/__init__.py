"""What every task is made of: its record, recipes, training, comparison, evaluation."""
