"""Merges the shards of a checkpoint step into a Hugging Face directory."""
