"""Where runs part and what is at fault there: pure functions of rows, selections, tokens and their order."""
