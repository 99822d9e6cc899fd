"""What real runs amounted to: promises, device time, energy, failures, as values, sentences and pages."""
