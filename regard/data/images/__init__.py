"""Images become arrays: files, labels, captions, augmentation, episodes."""
