"""Weights that other programs read and write: safetensors files in the layout of Hugging Face."""
