"""Programs that the lab runs and does not install: kernels, nginx, sshd, versions of curl. Built once, into the user's cache.

`uml.find()`/`uml.build()` give the router, `tools.find()`/`tools.require()` a program; setup.sh calls
`python -m lab.assets`. Standard library only, because setup.sh runs these modules before the virtual environment exists.
"""
