"""``python -m workbench``."""

from workbench.cli.start import main

if __name__ == "__main__":
    main()
