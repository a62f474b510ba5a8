"""Run the script that is named, with keys of noise that follow from its name."""

import random
import runpy
import secrets
import sys

script = sys.argv[1]
keys = random.Random(script)
secrets.randbits, secrets.token_bytes = keys.getrandbits, keys.randbytes
sys.path[0], sys.argv[:] = ".", [script]
runpy.run_path(script, run_name="__main__")
