"""Language models: our own Llama, and adapters for others; files in, logits out."""
