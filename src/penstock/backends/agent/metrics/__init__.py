"""Metrics of a run on their way from its workers to a file: lines of output, messages, event files of TensorBoard."""
