"""The few fused loops that decide the speed, and their plain reference twins."""
