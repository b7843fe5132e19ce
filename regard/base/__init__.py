"""What every other package uses: settings, files, tables, tensors, devices. Nothing here knows data or models."""
