"""Penstock meters accelerators onto training jobs."""
