"""``python -m bassl_cli`` is ``bassl``."""

from bassl_cli.app import main

main()
