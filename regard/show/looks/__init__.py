"""A caption word by word: where over the image the model looked for each."""
