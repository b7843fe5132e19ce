"""What everything stands on, about no data and no model: settings, files, tables, tensors, devices."""
