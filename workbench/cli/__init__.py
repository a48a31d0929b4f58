"""The command line: thin commands over ``workbench.runs``, tables for people and JSON for machines."""
