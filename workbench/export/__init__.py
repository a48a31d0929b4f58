"""A bad row as a fixture file and a test: what is written, and the proof that the test catches the loss."""
