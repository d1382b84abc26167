"""What the lab runs but does not install: the User-Mode Linux router, nginx and sshd, built once into the user's cache.

`uml.find()`/`uml.build()` give the router, `tools.find()`/`tools.require()` a program; `python -m lab.assets` is what
setup.sh calls. Everything here is standard library only, because it runs before the virtual environment exists.
"""
