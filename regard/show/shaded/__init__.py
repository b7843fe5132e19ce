"""A long text whose words are shaded by the attention they receive."""
